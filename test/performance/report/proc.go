package report

import (
	"errors"
	"strconv"
	"strings"
)

// clockTicks is the kernel's USER_HZ: 100 on every architecture on which Go runs.
const clockTicks = 100

// ParseMemory returns, in MiB, the value of a key in /proc/PID/status or /proc/meminfo, as in "VmHWM:   1024 kB".
func ParseMemory(status, key string) (float64, error) {
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == key+":" && fields[2] == "kB" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("no line begins with " + key)
}

// ParseUsage returns the CPU time of a control group, in seconds, from cpuacct.usage (version 1: nanoseconds) or
// cpu.stat (version 2: microseconds in a line of its own).
func ParseUsage(usage string) (seconds float64, err error) {
	for line := range strings.Lines(usage) {
		switch fields := strings.Fields(line); {
		case len(fields) == 1:
			nanoseconds, err := strconv.ParseFloat(fields[0], 64)
			return nanoseconds / 1e9, err
		case len(fields) == 2 && fields[0] == "usage_usec":
			microseconds, err := strconv.ParseFloat(fields[1], 64)
			return microseconds / 1e6, err
		}
	}
	return 0, errors.New("no CPU time of the group")
}

// ParseStat returns the name of a process, and the CPU time that it has taken, in seconds, from /proc/PID/stat.
func ParseStat(stat string) (name string, seconds float64, err error) {
	opening, closing := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if opening < 0 || closing < opening {
		return "", 0, errors.New("no name in parentheses")
	}
	fields := strings.Fields(stat[closing+1:])
	if len(fields) < 13 {
		return "", 0, errors.New("too few fields")
	}
	for _, field := range fields[11:13] { // utime and stime, the 14th and 15th fields of the line
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return "", 0, err
		}
		seconds += ticks / clockTicks
	}
	return stat[opening+1 : closing], seconds, nil
}

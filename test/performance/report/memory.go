package report

import (
	"errors"
	"strconv"
	"strings"
)

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

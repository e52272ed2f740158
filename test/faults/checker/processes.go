package checker

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// podGroup finds the UID of a pod in the name of its control group.
var podGroup = regexp.MustCompile(`/pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:/|\n|$)`)

// Processes returns the process IDs of the machine that run a program of this name in a pod, by the pod's UID.
func Processes(program string) (map[types.UID][]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	found := map[types.UID][]int{}
	for _, dir := range dirs {
		group, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue // it has ended
		}
		pod := podGroup.FindSubmatch(group)
		if pod == nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		if err != nil || filepath.Base(exe) != program {
			continue
		}
		if pid := number(filepath.Base(dir)); pid > 0 {
			found[types.UID(pod[1])] = append(found[types.UID(pod[1])], pid)
		}
	}
	return found, nil
}

func number(text string) int {
	n := 0
	for _, digit := range text {
		n = 10*n + int(digit-'0')
	}
	return n
}

// Signal sends a signal to the processes of a program in a pod, and returns to how many.
func Signal(program string, pod types.UID, signal syscall.Signal) (int, error) {
	all, err := Processes(program)
	if err != nil {
		return 0, err
	}
	sent := 0
	for _, pid := range all[pod] {
		if syscall.Kill(pid, signal) == nil {
			sent++
		}
	}
	return sent, nil
}

package checker

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// podGroup finds the UID of a pod in the name of its control group.
var podGroup = regexp.MustCompile(`/pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:/|\n|$)`)

// Run is the environment variable with which test pods tell to which namespace they belong. Other runs of the suite may
// have pods on this machine.
const Run = "FAULTS_RUN"

// Processes returns the process IDs of the machine that run the program of the test pods of a namespace, by the pod's
// UID.
func Processes(namespace string) (map[types.UID][]int, error) {
	return processes(Program, func(dir string) bool {
		environment, err := os.ReadFile(filepath.Join(dir, "environ"))
		is := func(variable []byte) bool { return string(variable) == Run+"="+namespace }
		return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), is)
	})
}

// processes returns the process IDs of the machine that run a program of this name in a pod, by the pod's UID. Of each,
// the function is asked about its directory in /proc.
func processes(program string, fits func(dir string) bool) (map[types.UID][]int, error) {
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
		if pid := number(filepath.Base(dir)); pid > 0 && fits(dir) {
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
	all, err := processes(program, func(string) bool { return true })
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

package restart

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// variable has the number of starts that failed one after another.
	variable = "MULTICLUSTER_SCHEDULER_FAILED_STARTS"
	// total has the number of all starts of the container's process but the first.
	total = "MULTICLUSTER_SCHEDULER_RESTARTS"
	// healthy is how long a process runs before its end counts as the first again.
	healthy = time.Minute

	firstPause, lastPause = time.Second, 15 * time.Second
)

// Pause returns how long this process is to wait before it does anything: nothing, unless starts failed before.
func Pause() time.Duration {
	failed, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || failed <= 0 {
		return 0
	}
	return pauseAfter(failed)
}

// Restarts returns how often the process of this container has started itself again. A kubelet counts none of them.
func Restarts() int {
	restarts, err := strconv.Atoi(os.Getenv(total))
	if err != nil {
		return 0
	}
	return restarts
}

func pauseAfter(failed int) time.Duration {
	pause := firstPause
	for range failed - 1 {
		if pause *= 2; pause > lastPause {
			return lastPause
		}
	}
	return pause
}

// Exec replaces the process, which ran for this long, by a new one of the same program, arguments and environment. It
// returns only if it fails.
func Exec(ran time.Duration) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	//nolint:gosec // the program and the arguments of this very process
	if err := syscall.Exec(program, os.Args, environment(os.Environ(), ran)); err != nil {
		return fmt.Errorf("starting %s again: %w", program, err)
	}
	return nil
}

// environment returns that of the next process.
func environment(current []string, ran time.Duration) []string {
	next, failed := without(current, variable)
	next, restarts := without(next, total)
	if ran >= healthy {
		failed = 0
	}
	return append(next, fmt.Sprintf("%s=%d", variable, failed+1), fmt.Sprintf("%s=%d", total, restarts+1))
}

// without returns the environment without a variable, and the number that it has.
func without(environment []string, variable string) (others []string, number int) {
	others = slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		value, ok := strings.CutPrefix(entry, variable+"=")
		if ok {
			number, _ = strconv.Atoi(value)
		}
		return ok
	})
	return others, number
}

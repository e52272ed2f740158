package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// fail counts its runs in a file. It exits with a code in the first runs. Later it waits for SIGTERM, or ends if the
// last argument is "exit".
func (p process) fail(args []string) error {
	ends := len(args) == 4 && args[3] == "exit"
	if len(args) != 3 && !ends {
		return fmt.Errorf("fail takes a file, a number of times, and a code: %w", errUsage)
	}
	times, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("%q is not a number: %w", args[1], errUsage)
	}
	runs := 1
	switch content, err := os.ReadFile(args[0]); {
	case err == nil:
		before, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil {
			return fmt.Errorf("reading the number of runs: %w", err)
		}
		runs = before + 1
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("reading the number of runs: %w", err)
	}
	if err := write([]string{args[0], strconv.Itoa(runs)}); err != nil {
		return err
	}
	p.log("run %d", runs)
	if runs <= times {
		return exit(args[2:3])
	}
	if ends {
		return nil
	}
	return p.sleep([]string{"infinity"})
}

// message writes text to a file and exits with a code.
func message(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("message takes a file, a code and text: %w", errUsage)
	}
	if err := write([]string{args[0], strings.Join(args[2:], " ")}); err != nil {
		return err
	}
	return exit(args[1:2])
}

// eat uses so many MiB of memory, and then waits for SIGTERM.
func (p process) eat(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("eat takes one number: %w", errUsage)
	}
	amount, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("%q is not a number: %w", args[0], errUsage)
	}
	p.log("eating %d MiB", amount)
	const pageSize = 4096
	eaten := make([]byte, amount<<20)
	for i := 0; i < len(eaten); i += pageSize {
		eaten[i] = 1
	}
	p.log("ate %d MiB", len(eaten)>>20)
	return p.sleep([]string{"infinity"})
}

// kill sends SIGTERM to a process.
func kill(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("kill takes one process ID: %w", errUsage)
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("%q is not a process ID: %w", args[0], errUsage)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("sending a signal: %w", err)
	}
	return nil
}

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal prints the size of the terminal that is the standard input, now and after each change, until it reads a
// line.
func (p process) terminal(in *os.File) error {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	typed := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(in).ReadString('\n')
		typed <- err
	}()
	for {
		size, err := unix.IoctlGetWinsize(int(in.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return fmt.Errorf("the standard input is no terminal: %w", err)
		}
		fmt.Fprintf(p.out, "%d rows, %d columns\n", size.Row, size.Col)
		select {
		case <-changed:
		case err := <-typed:
			return err
		}
	}
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `Usage: whoami [COMMAND]

Without a command it serves.

  serve [--address :8080] [--drain DURATION]
                        answer / with the pod's name ($POD_NAME, or $HOSTNAME) and /healthz with "ok", and log each
                        request; on SIGTERM, go on for the DURATION, finish what is asked, and exit
  sleep DURATION [--ignore-term]
                        wait for a DURATION ("30s", or "infinity"); on SIGTERM, log it and exit, or go on waiting
  exit CODE             exit with a code
  print TEXT...         print text (also: echo)
  write FILE TEXT...    write text to a file
  cat FILE...           print files
  env [NAME...]         print the environment, or the values of variables
  get [--timeout 10s] URL
                        ask a web server and print its answer; exit with 1 unless the status is 200
  stream [--every 20ms] [--timeout 10s] URL
                        ask a web server again and again, each time over a new connection; log new answers and
                        failures; on SIGTERM, log how many there were, and exit with 1 if any request failed
`

// errUsage is returned for a command line that cannot be understood.
var errUsage = errors.New("run whoami --help for what it can do")

// exitError is an error that stands for an exit code alone.
type exitError int

// Error implements error.
func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// process is what a command can use of the outside world.
type process struct {
	out    io.Writer
	getenv func(string) string
	// environ is the whole environment.
	environ []string
	// term receives what asks the program to end.
	term <-chan os.Signal
}

func main() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, os.Interrupt)
	p := process{out: os.Stdout, getenv: os.Getenv, environ: os.Environ(), term: term}
	err := p.run(context.Background(), os.Args[1:]) //nolint:forbidigo // here the program begins
	var code exitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &code):
		os.Exit(int(code))
	default:
		fmt.Fprintln(os.Stderr, "whoami:", err)
		os.Exit(1)
	}
}

// run runs the command that args name.
func (p process) run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] != "--help" && strings.HasPrefix(args[0], "-") {
		return p.serve(ctx, args)
	}
	command, args := args[0], args[1:]
	switch command {
	case "serve":
		return p.serve(ctx, args)
	case "sleep":
		return p.sleep(args)
	case "exit":
		return exit(args)
	case "print", "echo":
		return p.print(args)
	case "write":
		return write(args)
	case "cat":
		return p.cat(args)
	case "env":
		return p.env(args)
	case "get":
		return p.get(ctx, args)
	case "stream":
		return p.stream(ctx, args)
	case "help", "--help":
		fmt.Fprint(p.out, usage)
		return nil
	}
	return fmt.Errorf("there is no command %q: %w", command, errUsage)
}

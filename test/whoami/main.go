package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usage = `Usage: whoami [COMMAND]

Without a command, it serves.

  serve [--address :8080] [--drain DURATION]
                        answer / with the pod's name ($POD_NAME, or $HOSTNAME), /healthz with "ok", /bytes?n=BYTES
                        and /sum as the commands, /work?for=DURATION after it has computed for so long, and health
                        checks of gRPC, and log each request; on SIGTERM, go on for the DURATION, finish open
                        requests, and exit
  sleep DURATION [--ignore-term] [--exit=CODE]
                        wait for a DURATION ("30s", or "infinity"), and exit with the CODE; on SIGTERM, log it, and
                        exit with 0 or go on waiting
  exit CODE             exit with a code
  print TEXT...         print text (also: echo)
  write FILE TEXT...    write text to a file
  cat [FILE...]         print files, or the standard input
  repeat                print the standard input, and wait for SIGTERM
  bytes BYTES           print a pattern of so many bytes
  bytes-held BYTES      the same, and wait for the end of the standard input
  lines BYTES           print numbered lines of so many bytes in all, and wait for SIGTERM
  terminal              print the size of the terminal, now and after each change, until a line is typed
  sum                   print the SHA-256 checksum of the standard input
  env [NAME...]         print the environment, or the values of variables
  ls PATH...            list files and folders: modes, owners, sizes
  id                    print as whom the program runs, and what it may do
  mounts PATH...        print what is mounted at paths and below
  processes             print the names of the processes that the container sees
  interfaces            print the names of network interfaces
  fail FILE TIMES CODE [exit]
                        count the runs in a file, exit with the code in the first runs, and later wait for SIGTERM,
                        or exit with 0
  message FILE CODE TEXT...
                        write text to a file and exit with a code
  eat MIB               use memory
  kill PID              send SIGTERM to a process
  install FILE          copy the program to a file; a copy that is called tar does what kubectl cp needs
  tar ...               pack and unpack files for kubectl cp
  get [--timeout 10s] URL
                        request a URL and print the answer; exit with 1 unless the status is 200
  stream [--every 20ms] [--timeout 10s] URL
                        request a URL again and again, each time over a new connection; log new answers and
                        failures; on SIGTERM, log how many there were, and exit with 1 if any request failed
  etcd-join --data FOLDER --peer URL [--every 1s] URL...
                        unless the FOLDER has data, remove the member of the peer URL from the cluster of etcd whose
                        members serve clients at the URLs, and add it as a new member
`

// errUsage is wrapped by the errors about a wrong command line.
var errUsage = errors.New("run whoami --help for the commands")

// exitError is an error without a message, for the exit code of the program.
type exitError int

// Error implements error.
func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// process holds the inputs and outputs of a command, so that tests can replace them.
type process struct {
	out    io.Writer
	getenv func(string) string
	// environ is the whole environment, as NAME=value.
	environ []string
	// term receives the signals that ask the program to end.
	term <-chan os.Signal
}

func main() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, os.Interrupt)
	p := process{out: os.Stdout, getenv: os.Getenv, environ: os.Environ(), term: term}
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == tarName {
		args = os.Args
		args[0] = tarName
	}
	err := p.run(context.Background(), args) //nolint:forbidigo // the program begins here
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
	case "etcd-join":
		return p.joinEtcd(ctx, args)
	case "help", "--help":
		fmt.Fprint(p.out, usage)
		return nil
	}
	return p.inspectOrFail(command, args)
}

// inspectOrFail runs the commands with which tests look at a container, or end it.
func (p process) inspectOrFail(command string, args []string) error {
	switch command {
	case "ls":
		return p.list(args)
	case "id":
		return p.identity()
	case "mounts":
		return p.mounts(args)
	case "processes":
		return p.processes()
	case "interfaces":
		return p.interfaces()
	case "fail":
		return p.fail(args)
	case "message":
		return message(args)
	case "terminal":
		return p.terminal(os.Stdin)
	case "eat":
		return p.eat(args)
	case "kill":
		return kill(args)
	case "bytes", "bytes-held", "lines", "repeat", "sum":
		return p.transfer(command, args)
	case "install":
		return install(args)
	case tarName:
		return p.archive(args)
	}
	return fmt.Errorf("unknown command %q: %w", command, errUsage)
}

// tarName is the command, and the name of the copy of the program, that packs and unpacks files.
const tarName = "tar"

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	ignoreTerm = "--ignore-term"
	exitCode   = "--exit="
	maxCode    = 255
)

// sleep waits, and logs SIGTERM. It then ends, unless it is told to ignore SIGTERM. When the time has passed, it ends
// with the given exit code, or 0.
func (p process) sleep(args []string) error {
	ignore, code := false, "0"
	var rest []string
	for _, arg := range args {
		if arg == ignoreTerm {
			ignore = true
			continue
		}
		if given, ok := strings.CutPrefix(arg, exitCode); ok {
			code = given
			continue
		}
		rest = append(rest, arg)
	}
	if len(rest) != 1 {
		return fmt.Errorf("sleep takes one duration: %w", errUsage)
	}
	duration, err := parseDuration(rest[0])
	if err != nil {
		return err
	}
	p.log("sleeping for %s", rest[0])
	timer := time.NewTimer(duration)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return exit([]string{code})
		case <-p.term:
			p.log("received SIGTERM")
			if !ignore {
				return nil
			}
		}
	}
}

func parseDuration(text string) (time.Duration, error) {
	if text == "infinity" {
		return math.MaxInt64, nil
	}
	// A number without a unit is seconds, as in other programs called sleep.
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("parsing the duration: %w", err)
	}
	return duration, nil
}

func exit(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("exit takes one code: %w", errUsage)
	}
	code, err := strconv.Atoi(args[0])
	if err != nil || code < 0 || code > maxCode {
		return fmt.Errorf("%q is not an exit code: %w", args[0], errUsage)
	}
	if code == 0 {
		return nil
	}
	return exitError(code)
}

func (p process) print(args []string) error {
	_, err := fmt.Fprintln(p.out, strings.Join(args, " "))
	return err
}

func write(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("write takes a file and text: %w", errUsage)
	}
	if err := os.WriteFile(args[0], []byte(strings.Join(args[1:], " ")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// cat prints files, or its standard input if there are none.
func (p process) cat(files []string) error {
	if len(files) == 0 {
		if _, err := io.Copy(p.out, os.Stdin); err != nil {
			return fmt.Errorf("copying standard input: %w", err)
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		if _, err := p.out.Write(content); err != nil {
			return fmt.Errorf("printing %q: %w", file, err)
		}
	}
	return nil
}

func (p process) repeat() error {
	if err := p.cat(nil); err != nil {
		return err
	}
	<-p.term
	return nil
}

func (p process) env(names []string) error {
	if len(names) == 0 {
		return p.print([]string{strings.Join(p.environ, "\n")})
	}
	for _, name := range names {
		if err := p.print([]string{p.getenv(name)}); err != nil {
			return err
		}
	}
	return nil
}

func (p process) get(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	timeout := flags.Duration("timeout", requestTimeout, "time to wait for the answer")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing the flags of get: %w", err)
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("get takes one URL: %w", errUsage)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, flags.Arg(0), nil)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(p.out, response.Body); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: status %s", flags.Arg(0), response.Status)
	}
	return nil
}

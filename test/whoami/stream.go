package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// stream requests a URL again and again until it receives SIGTERM. Each request has a new connection, as those of many
// clients would. stream logs each new answer and each failure, and in the end their numbers. It fails if a request
// failed.
func (p process) stream(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("stream", flag.ContinueOnError)
	every := flags.Duration("every", 20*time.Millisecond, "time between requests")
	timeout := flags.Duration("timeout", requestTimeout, "time to wait for an answer")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing the flags of stream: %w", err)
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("stream takes one URL: %w", errUsage)
	}
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(*every)
	defer ticker.Stop()
	answers := map[string]bool{}
	asked, failed := 0, 0
	for {
		asked++
		answer, err := ask(ctx, client, flags.Arg(0))
		switch {
		case err != nil:
			failed++
			p.log("failed: %v", err)
		case !answers[answer]:
			answers[answer] = true
			p.log("answered: %s", answer)
		}
		select {
		case <-ticker.C:
		case <-p.term:
			p.log("asked %d times, failed %d times", asked, failed)
			if failed > 0 {
				return errors.New("some requests failed")
			}
			return nil
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("making a request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking: status %s", response.Status)
	}
	return strings.TrimSpace(string(body)), nil
}

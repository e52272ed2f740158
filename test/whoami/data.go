package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

// period is the number of bytes after which the pattern of writePattern begins again. It is prime, so that data that is
// lost, doubled or moved changes the checksum.
const period = 251

// transfer runs the commands that send or receive much data.
func (p process) transfer(command string, args []string) error {
	if command == "repeat" {
		return p.repeat()
	}
	if command == "sum" {
		if len(args) != 0 {
			return fmt.Errorf("sum takes no arguments: %w", errUsage)
		}
		return writeSum(p.out, os.Stdin)
	}
	if len(args) != 1 {
		return fmt.Errorf("%s takes a number of bytes: %w", command, errUsage)
	}
	size, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("%q is not a number of bytes: %w", args[0], errUsage)
	}
	switch command {
	case "bytes":
		return writePattern(p.out, size)
	case "bytes-held":
		err := writePattern(p.out, size)
		_, endErr := io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, endErr)
	}
	if err := writeLines(p.out, size); err != nil {
		return err
	}
	<-p.term
	return nil
}

// writePattern writes the bytes 0 to 250 again and again.
func writePattern(to io.Writer, size int64) error {
	pattern := make([]byte, period*128)
	for i := range pattern {
		pattern[i] = byte(i % period)
	}
	for left := size; left > 0; left -= int64(len(pattern)) {
		if _, err := to.Write(pattern[:min(left, int64(len(pattern)))]); err != nil {
			return fmt.Errorf("writing the pattern: %w", err)
		}
	}
	return nil
}

// writeLines writes numbered lines of 100 bytes.
func writeLines(to io.Writer, size int64) error {
	out := bufio.NewWriterSize(to, 32<<10)
	for i := range size / 100 {
		if _, err := fmt.Fprintf(out, "%-99d\n", i); err != nil {
			return fmt.Errorf("writing lines: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing lines: %w", err)
	}
	return nil
}

func writeSum(to io.Writer, from io.Reader) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, from); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	_, err := fmt.Fprintf(to, "%x\n", sum.Sum(nil))
	return err
}

// serveBytes answers with as many bytes of the pattern as the query's n says.
func serveBytes(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	if err != nil || size < 0 {
		http.Error(w, "n is no number of bytes", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	_ = writePattern(w, size) // If it fails, the caller has left.
}

// serveSum answers with the checksum of the body.
func serveSum(w http.ResponseWriter, r *http.Request) {
	if err := writeSum(w, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Every is the interval at which a step that still runs writes a line.
const Every = 20 * time.Second

// Printer writes lines. It is safe for concurrent use.
type Printer struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

// New returns a Printer that writes to out.
func New(out io.Writer) *Printer {
	return &Printer{out: out}
}

// Line writes one line.
func (p *Printer) Line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Step calls run and returns its error. It writes the name of the step at the start, at every Every with the seconds so
// far, and at the end with their total.
func (p *Printer) Step(what string, run func() error) error {
	start := time.Now()
	p.Line("%s …", what)
	finished := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		ticker := time.NewTicker(Every)
		defer ticker.Stop()
		for {
			select {
			case <-finished:
				return
			case <-ticker.C:
				p.Line("%s … %.0f s", what, time.Since(start).Seconds())
			}
		}
	})
	err := run()
	close(finished)
	reporting.Wait()
	if err == nil {
		p.Line("%s … done in %.1f s", what, time.Since(start).Seconds())
	}
	return err
}

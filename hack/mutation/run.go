package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A test program may use this many KiB of memory. A mutant may make a loop endless.
const memory = 6 << 20

// What became of a mutant.
type fate string

const (
	killed     fate = "killed"
	timedOut   fate = "timed out"
	lives      fate = "lives"
	notReached fate = "lives: no test reaches it"
)

// program is a test program with a switch for each mutant of its package.
type program struct {
	path, folder string
	mutants      []mutant
	notTried     int

	// These come from the run without a mutant.
	limit   time.Duration
	reached map[int]bool
}

// build compiles the test program of a package into the folder temporary.
func build(ctx context.Context, folder, temporary string) (*program, error) {
	l, err := load(ctx, folder)
	if err != nil {
		return nil, err
	}
	m := &mutator{loaded: l}
	texts := map[string]string{switchesName: switches(l.types.Name())}
	for _, path := range sortedKeys(l.files) {
		texts[filepath.Base(path)] = m.mutate(l.files[path], l.texts[path])
	}
	overlay, err := writeOverlay(folder, temporary, texts)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(m.mutants, func(a, b mutant) int {
		return cmp.Or(strings.Compare(a.position.Filename, b.position.Filename), a.position.Offset-b.position.Offset)
	})
	p := &program{path: filepath.Join(temporary, "test"), folder: folder, mutants: m.mutants, notTried: m.notTried}
	out, err := goCommand(ctx, "test", "-c", "-overlay", overlay, "-o", p.path, "./"+folder).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compiling the mutants of %s: %w\n%s", folder, err, out)
	}
	if _, err := os.Stat(p.path); err != nil {
		return nil, fmt.Errorf("%s has no unit tests, so that all its mutants live", folder)
	}
	return p, nil
}

// writeOverlay writes the files with switches, and the file by which the go command finds them.
func writeOverlay(folder, temporary string, texts map[string]string) (string, error) {
	replace := map[string]string{}
	for name, text := range texts {
		original, err := filepath.Abs(filepath.Join(folder, name))
		if err != nil {
			return "", fmt.Errorf("finding %s: %w", name, err)
		}
		replace[original] = filepath.Join(temporary, name)
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("writing mutants: %w", err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	path := filepath.Join(temporary, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return path, nil
}

// runUnchanged runs the tests without a mutant.
func (p *program) runUnchanged(ctx context.Context) error {
	file := p.path + ".reached"
	start := time.Now()
	if out, err := p.test(ctx, 10*time.Minute, reachedVariable+"="+file); err != nil {
		return fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", p.folder, err, out)
	}
	p.limit = 5*time.Second + 5*time.Since(start)
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading which mutants are reached: %w", err)
	}
	p.reached = map[int]bool{}
	for line := range strings.FieldsSeq(string(text)) {
		number, err := strconv.Atoi(line)
		if err != nil {
			return fmt.Errorf("reading which mutants are reached: %w", err)
		}
		p.reached[number] = true
	}
	return nil
}

// run runs the tests with a mutant.
func (p *program) run(ctx context.Context, m mutant) fate {
	if !p.reached[m.number] {
		return notReached
	}
	out, err := p.test(ctx, p.limit, chosenVariable+"="+strconv.Itoa(m.number))
	switch {
	case err == nil:
		return lives
	case bytes.Contains(out, []byte("panic: test timed out")):
		return timedOut
	default:
		return killed
	}
}

func (p *program) test(ctx context.Context, limit time.Duration, variable string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	limited := fmt.Sprintf(`ulimit -v %d; exec "$@"`, memory)
	command := exec.CommandContext(ctx,
		"sh", "-c", limited, "sh", p.path, "-test.failfast", "-test.timeout="+limit.String())
	command.Dir = p.folder
	command.Env = append(os.Environ(), variable)
	return command.CombinedOutput()
}

package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Target is a program to build.
type Target struct {
	// Name is the name of the executable.
	Name string
	// Dir is the folder in which Go runs, and Package the package that it builds.
	Dir, Package string
	// Defines are values of string variables ("path.name=value") that the linker sets.
	Defines []string
	// Sources are files and folders, relative to Dir. The program is out of date when their content has changed.
	Sources []string
}

// Builder puts executables into a folder.
type Builder struct {
	Out string
	// Step calls run and shows its progress.
	Step func(what string, run func() error) error
}

// Path returns the path of an executable.
func (b Builder) Path(name string) string {
	return filepath.Join(b.Out, name)
}

// Build builds the targets that are not up to date.
func (b Builder) Build(ctx context.Context, targets ...Target) error {
	version, err := output(ctx, "", "go", "env", "GOVERSION", "GOARCH")
	if err != nil {
		return err
	}
	for _, target := range targets {
		stamp, err := target.stamp(version)
		if err != nil {
			return err
		}
		if b.upToDate(target.Name, stamp) {
			continue
		}
		if err := b.Step("building "+target.Name, func() error { return b.build(ctx, target, stamp) }); err != nil {
			return err
		}
	}
	return nil
}

func (b Builder) build(ctx context.Context, target Target, stamp string) error {
	if err := os.MkdirAll(filepath.Dir(b.stampFile(target.Name)), 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	// The old executable may be running, so the new one takes its name only when it is complete.
	fresh := b.Path("." + target.Name + ".new")
	_, err := output(ctx, target.Dir,
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", target.ldflags(), "-o", fresh, target.Package)
	if err != nil {
		return fmt.Errorf("building %s: %w", target.Name, err)
	}
	if err := os.Rename(fresh, b.Path(target.Name)); err != nil {
		return fmt.Errorf("building %s: %w", target.Name, err)
	}
	if err := os.WriteFile(b.stampFile(target.Name), []byte(stamp), 0o644); err != nil {
		return fmt.Errorf("writing the stamp of %s: %w", target.Name, err)
	}
	return nil
}

func (b Builder) upToDate(name, stamp string) bool {
	if _, err := os.Stat(b.Path(name)); err != nil {
		return false
	}
	found, err := os.ReadFile(b.stampFile(name))
	return err == nil && string(found) == stamp
}

func (b Builder) stampFile(name string) string {
	return filepath.Join(b.Out, ".stamps", name)
}

func (t Target) ldflags() string {
	flags := []string{"-s", "-w"}
	for _, define := range t.Defines {
		flags = append(flags, "-X", define)
	}
	return strings.Join(flags, " ")
}

// stamp identifies everything on which the executable depends.
func (t Target) stamp(version string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, version, t.Package, t.ldflags())
	for _, source := range t.Sources {
		err := filepath.WalkDir(filepath.Join(t.Dir, source), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			fmt.Fprintln(sum, filepath.Base(path), len(content))
			sum.Write(content)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading the sources of %s: %w", t.Name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ModuleVersion returns the version of a module that a go.mod file requires.
func ModuleVersion(goMod, module string) (string, error) {
	content, err := os.ReadFile(goMod)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", module, err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", goMod, module)
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("there is no program %q in the PATH; install Go 1.26 or newer", program)
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("running %s %s: %w: %s", program, args[0], err, strings.TrimSpace(string(failed.Stderr)))
	}
	return "", fmt.Errorf("running %s %s: %w", program, args[0], err)
}

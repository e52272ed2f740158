package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// list prints the files of folders, with modes, owners and sizes. Links are printed as what they lead to, as a reader
// sees them. Files whose names begin with two dots, which kubelets make, are left out.
func (p process) list(roots []string) error {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path != root && strings.HasPrefix(entry.Name(), "..") {
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return p.print([]string{describe(path, info)})
		})
		if err != nil {
			return fmt.Errorf("listing: %w", err)
		}
	}
	return nil
}

func describe(path string, info fs.FileInfo) string {
	text := info.Mode().String()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		text += fmt.Sprintf(" %d:%d", stat.Uid, stat.Gid)
	}
	if !info.IsDir() {
		text += fmt.Sprintf(" %d bytes", info.Size())
	}
	return text + " " + path
}

// identity prints as whom the process runs, and what it may do.
func (p process) identity() error {
	groups, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("reading groups: %w", err)
	}
	slices.Sort(groups)
	fmt.Fprintf(p.out, "user %d group %d groups %v\n", os.Getuid(), os.Getgid(), groups)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("reading the status of the process: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.HasPrefix(name, "Cap") || name == "NoNewPrivs" || name == "Seccomp" {
			fmt.Fprintf(p.out, "%s %s\n", name, strings.TrimSpace(value))
		}
	}
	return nil
}

// mounts prints what is mounted at paths or below: file system, and whether it can be written. The size of a file
// system in memory is printed, too.
func (p process) mounts(paths []string) error {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("reading mounts: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !slices.ContainsFunc(paths, func(path string) bool {
			return fields[1] == path || strings.HasPrefix(fields[1], strings.TrimSuffix(path, "/")+"/")
		}) {
			continue
		}
		text := fields[1] + " " + fields[2]
		for option := range strings.SplitSeq(fields[3], ",") {
			if option == "ro" || option == "rw" || strings.HasPrefix(option, "size=") {
				text += " " + option
			}
		}
		fmt.Fprintln(p.out, text)
	}
	return lines.Err()
}

// processes prints the names of the processes that the container sees, each once.
func (p process) processes() error {
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if name, err := os.ReadFile(file); err == nil { // A process may have ended.
			names[strings.TrimSpace(string(name))] = true
		}
	}
	return p.printSorted(names)
}

// interfaces prints the names of network interfaces.
func (p process) interfaces() error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	names := map[string]bool{}
	for _, i := range all {
		names[i.Name] = true
	}
	return p.printSorted(names)
}

func (p process) printSorted(names map[string]bool) error {
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return p.print([]string{strings.Join(sorted, "\n")})
}

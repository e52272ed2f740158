package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// required returns the controllers that a kubelet needs.
func required() []string {
	return []string{"cpu", "memory", "cpuset", "pids"}
}

// Hierarchies are the mounted control group hierarchies of a machine.
type Hierarchies struct {
	// V1 maps controllers ("cpu,cpuacct", "name=systemd") to the mount points of version 1.
	V1 map[string]string
	// V2 is the mount point of version 2, or empty.
	V2 string
}

// Mounted returns the machine's hierarchies, or an error that names a controller that a kubelet would miss.
func Mounted() (Hierarchies, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Hierarchies{}, fmt.Errorf("reading mounts: %w", err)
	}
	defer func() { _ = file.Close() }()
	found, err := parseMounts(file)
	if err != nil {
		return Hierarchies{}, err
	}
	var controllers []string
	if found.Unified() && found.V2 != "" {
		content, err := os.ReadFile(found.V2 + "/cgroup.controllers")
		if err != nil {
			return Hierarchies{}, fmt.Errorf("reading the control group controllers: %w", err)
		}
		controllers = strings.Fields(string(content))
	}
	for names := range found.V1 {
		controllers = append(controllers, strings.Split(names, ",")...)
	}
	for _, name := range required() {
		if !slices.Contains(controllers, name) {
			return Hierarchies{}, fmt.Errorf("this machine lacks the control group controller %q", name)
		}
	}
	return found, nil
}

// Unified reports whether the controllers are in version 2.
func (h Hierarchies) Unified() bool {
	for names := range h.V1 {
		if slices.Contains(strings.Split(names, ","), "memory") {
			return false
		}
	}
	return true
}

func (h Hierarchies) mounts() []string {
	var mounts []string
	for _, mount := range h.V1 {
		mounts = append(mounts, mount)
	}
	if h.V2 != "" {
		mounts = append(mounts, h.V2)
	}
	slices.Sort(mounts)
	return mounts
}

func parseMounts(mountinfo io.Reader) (Hierarchies, error) {
	found := Hierarchies{V1: map[string]string{}}
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		place, mount := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(mount) < 3 {
			continue
		}
		switch mount[0] {
		case "cgroup2":
			found.V2 = place[4]
		case "cgroup":
			found.V1[controllersOf(mount[2])] = place[4]
		}
	}
	if err := lines.Err(); err != nil {
		return Hierarchies{}, fmt.Errorf("reading mounts: %w", err)
	}
	return found, nil
}

func controllersOf(options string) string {
	names := slices.DeleteFunc(strings.Split(options, ","), func(option string) bool {
		return slices.Contains([]string{"rw", "ro", "xattr", "clone_children", "release_agent"}, option) ||
			strings.HasPrefix(option, "release_agent=")
	})
	return strings.Join(names, ",")
}

package build

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const versionPackage = "k8s.io/component-base/version"

// Programs returns the programs of which a checkout's clusters consist, in the order in which to build them. Those that
// tests against bare API servers need come first.
func Programs(checkout string) ([]Target, error) {
	dir := filepath.Join(checkout, "hack", "clusters", "build")
	kubernetes := filepath.Join(dir, "kubernetes")
	version, err := ModuleVersion(filepath.Join(kubernetes, "go.mod"), "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	targets := []Target{{Name: "etcd", Dir: filepath.Join(dir, "etcd"), Package: ".", Sources: []string{"."}}}
	for _, name := range []string{
		"kube-apiserver", "kubectl", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy",
	} {
		targets = append(targets, Target{
			Name: name, Dir: kubernetes, Package: "k8s.io/kubernetes/cmd/" + name,
			Defines: versionDefines(version), Sources: []string{"go.mod", "go.sum"},
		})
	}
	targets = append(targets, Target{
		Name: "coredns", Dir: filepath.Join(dir, "coredns"), Package: ".", Sources: []string{"."},
	})
	return append(targets, Target{
		Name: "kwok", Dir: filepath.Join(dir, "kwok"), Package: "sigs.k8s.io/kwok/cmd/kwok",
		Sources: []string{"go.mod", "go.sum"},
	}), nil
}

// Images returns the programs of the images that every node holds.
func Images(checkout string) []Target {
	module := filepath.Join(checkout, "hack", "clusters")
	return []Target{
		{Name: "pause", Dir: module, Package: "./pause", Sources: []string{"pause"}},
		{Name: "whoami", Dir: checkout, Package: "./test/whoami", Sources: []string{"test/whoami"}},
	}
}

// Select returns the targets with the given names, or all targets if there are no names.
func Select(targets []Target, names []string) ([]Target, error) {
	if len(names) == 0 {
		return targets, nil
	}
	var known []string
	for _, target := range targets {
		known = append(known, target.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no program %q; choose from %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(targets, func(t Target) bool { return !slices.Contains(names, t.Name) }), nil
}

// versionDefines returns the definitions by which Kubernetes reports its version. Clients misunderstand an API server
// that reports v0.0.0.
func versionDefines(version string) []string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	return []string{
		versionPackage + ".gitVersion=" + version,
		versionPackage + ".gitMajor=" + major,
		versionPackage + ".gitMinor=" + minor,
		versionPackage + ".gitTreeState=clean",
	}
}

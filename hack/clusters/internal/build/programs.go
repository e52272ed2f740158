package build

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const versionPackage = "k8s.io/component-base/version"

// Programs returns the programs of which a checkout's clusters consist, in the order in which to build them. Those that
// tests against bare API servers need come first.
func Programs(checkout string) ([]Target, error) {
	dir := filepath.Join(checkout, "hack", "clusters", "build")
	kubernetes := filepath.Join(dir, "kubernetes")
	version, err := kubernetesVersion(kubernetes)
	if err != nil {
		return nil, err
	}
	targets := []Target{{Name: "etcd", Dir: filepath.Join(dir, "etcd"), Package: ".", Sources: []string{"."}}}
	targets = append(targets, ofKubernetes(kubernetes, version,
		"kube-apiserver", "kubectl", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy")...)
	targets = append(targets, Target{
		Name: "coredns", Dir: filepath.Join(dir, "coredns"), Package: ".", Sources: []string{"."},
	})
	return append(targets, Target{
		Name: "kwok", Dir: filepath.Join(dir, "kwok"), Package: "sigs.k8s.io/kwok/cmd/kwok",
		Sources: []string{"go.mod", "go.sum"},
	}), nil
}

// Kubernetes returns the components of another minor version of Kubernetes, "1.36" say, in which a cluster can run.
// There is no kubectl: that of Programs works with the minor versions beside its own.
func Kubernetes(checkout, minor string) ([]Target, error) {
	dir := kubernetesDir(checkout, minor)
	if _, err := os.Stat(dir); err != nil || !minorVersion.MatchString(minor) {
		return nil, fmt.Errorf("no Kubernetes %q can be built: choose from %s",
			minor, strings.Join(Minors(checkout), ", "))
	}
	version, err := kubernetesVersion(dir)
	if err != nil {
		return nil, err
	}
	return ofKubernetes(dir, version,
		"kube-apiserver", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy"), nil
}

// Containerd returns the programs of containerd 2, which runs in place of Debian's where a cluster asks for it.
func Containerd(checkout string) ([]Target, error) {
	const module = "github.com/containerd/containerd/v2"
	dir := filepath.Join(checkout, "hack", "clusters", "build", "containerd")
	version, err := ModuleVersion(filepath.Join(dir, "go.mod"), module)
	if err != nil {
		return nil, err
	}
	var targets []Target
	for _, name := range []string{"containerd", "containerd-shim-runc-v2"} {
		targets = append(targets, Target{
			Name: name, Dir: dir, Package: module + "/cmd/" + name,
			Defines: []string{module + "/version.Version=" + version}, Sources: []string{"go.mod", "go.sum"},
		})
	}
	return targets, nil
}

// DefaultMinor returns the minor version of Kubernetes that Programs builds.
func DefaultMinor(checkout string) (string, error) {
	version, err := kubernetesVersion(filepath.Join(checkout, "hack", "clusters", "build", "kubernetes"))
	if err != nil {
		return "", err
	}
	major, minor := majorMinor(version)
	return major + "." + minor, nil
}

// Minors returns the minor versions of Kubernetes that can be built, the default one last.
func Minors(checkout string) []string {
	var minors []string
	const begins = "kubernetes-"
	dirs, _ := filepath.Glob(kubernetesDir(checkout, "*"))
	for _, dir := range dirs {
		minors = append(minors, strings.TrimPrefix(filepath.Base(dir), begins))
	}
	if minor, err := DefaultMinor(checkout); err == nil {
		minors = append(minors, minor)
	}
	return minors
}

var minorVersion = regexp.MustCompile(`^1\.[0-9]+$`)

func kubernetesDir(checkout, minor string) string {
	return filepath.Join(checkout, "hack", "clusters", "build", "kubernetes-"+minor)
}

func kubernetesVersion(dir string) (string, error) {
	return ModuleVersion(filepath.Join(dir, "go.mod"), "k8s.io/kubernetes")
}

func ofKubernetes(dir, version string, names ...string) []Target {
	var targets []Target
	for _, name := range names {
		targets = append(targets, Target{
			Name: name, Dir: dir, Package: "k8s.io/kubernetes/cmd/" + name,
			Defines: versionDefines(version), Sources: []string{"go.mod", "go.sum"},
		})
	}
	return targets
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
	major, minor := majorMinor(version)
	return []string{
		versionPackage + ".gitVersion=" + version,
		versionPackage + ".gitMajor=" + major,
		versionPackage + ".gitMinor=" + minor,
		versionPackage + ".gitTreeState=clean",
	}
}

func majorMinor(version string) (major, minor string) {
	major, minor, _ = strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	return major, minor
}

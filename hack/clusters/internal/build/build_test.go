package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyOutdatedProgramsAreBuilt(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.org/hello\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() {}\n")
	var steps []string
	b := Builder{Out: filepath.Join(t.TempDir(), "bin"), Step: func(what string, run func() error) error {
		steps = append(steps, what)
		return run()
	}}
	hello := Target{Name: "hello", Dir: dir, Package: ".", Sources: []string{"."}}
	build := func() {
		t.Helper()
		if err := b.Build(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
	}
	build()
	build()
	if diff := cmp.Diff([]string{"building hello"}, steps); diff != "" {
		t.Fatalf("steps (-want +got):\n%s", diff)
	}
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { println() }\n")
	build()
	hello.Defines = []string{"main.version=v1"}
	build()
	if err := os.Remove(b.Path("hello")); err != nil {
		t.Fatal(err)
	}
	build()
	if len(steps) != 4 {
		t.Errorf("built %d times, want 4: first, and after changes of the source, the flags and the executable",
			len(steps))
	}
}

func TestAFailedBuildIsRepeated(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.org/broken\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { nonsense }\n")
	b := Builder{Out: t.TempDir(), Step: func(_ string, run func() error) error { return run() }}
	broken := Target{Name: "broken", Dir: dir, Package: ".", Sources: []string{"."}}
	for range 2 {
		if err := b.Build(t.Context(), broken); err == nil {
			t.Error("a program that does not compile was built")
		}
	}
}

func TestModuleVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go.mod")
	write(t, file, "module x\n\nrequire k8s.io/one v1.2.3\n\nrequire (\n\tk8s.io/two v0.1.0 // indirect\n)\n\n"+
		"replace k8s.io/three => k8s.io/three v9.9.9\n")
	for module, want := range map[string]string{"k8s.io/one": "v1.2.3", "k8s.io/two": "v0.1.0"} {
		if got, err := ModuleVersion(file, module); err != nil || got != want {
			t.Errorf("%s: %q, %v", module, got, err)
		}
	}
	for _, module := range []string{"k8s.io/three", "k8s.io/four"} {
		if got, err := ModuleVersion(file, module); err == nil {
			t.Errorf("%s: %q, want an error", module, got)
		}
	}
}

func TestSelect(t *testing.T) {
	all := func() []Target { return []Target{{Name: "etcd"}, {Name: "kubectl"}, {Name: "kwok"}} }
	names := func(targets []Target) (names []string) {
		for _, target := range targets {
			names = append(names, target.Name)
		}
		return names
	}
	for name, c := range map[string]struct{ given, want []string }{
		"without names, all programs are selected": {want: []string{"etcd", "kubectl", "kwok"}},
		"the order is that of the programs": {
			given: []string{"kwok", "etcd"}, want: []string{"etcd", "kwok"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Select(all(), c.given)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(got)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Select(all(), []string{"docker"}); err == nil {
		t.Error("an unknown program was accepted")
	}
}

func TestOtherVersionsOfKubernetesAreThoseThatHaveAFolder(t *testing.T) {
	checkout := t.TempDir()
	for dir, version := range map[string]string{"kubernetes": "v1.37.1", "kubernetes-1.36": "v1.36.3"} {
		write(t, filepath.Join(checkout, "hack", "clusters", "build", dir, "go.mod"),
			"module x\n\nrequire k8s.io/kubernetes "+version+"\n")
	}
	targets, err := Kubernetes(checkout, "1.36")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, target := range targets {
		names[target.Name] = true
		if filepath.Base(target.Dir) != "kubernetes-1.36" || target.Defines[0] != versionDefines("v1.36.3")[0] {
			t.Errorf("%s is built in %s with %v", target.Name, target.Dir, target.Defines)
		}
	}
	if !names["kubelet"] || names["kubectl"] || names["etcd"] {
		t.Errorf("built are %v", names)
	}
	for _, minor := range []string{"", "1.35", "1.37", "*", "1.36/../kubernetes-1.36", "v1.36"} {
		if _, err := Kubernetes(checkout, minor); err == nil || !strings.Contains(err.Error(), "1.36, 1.37") {
			t.Errorf("%q: the error is %v", minor, err)
		}
	}
	if minor, err := DefaultMinor(checkout); minor != "1.37" || err != nil {
		t.Errorf("the default is %q, %v", minor, err)
	}
}

func TestContainerdReportsTheVersionOfItsModule(t *testing.T) {
	checkout := t.TempDir()
	const module = "github.com/containerd/containerd/v2"
	write(t, filepath.Join(checkout, "hack", "clusters", "build", "containerd", "go.mod"),
		"module x\n\nrequire "+module+" v2.4.2\n")
	targets, err := Containerd(checkout)
	if err != nil {
		t.Fatal(err)
	}
	if len(targets) != 2 {
		t.Fatalf("%d programs, want containerd and its shim", len(targets))
	}
	for _, target := range targets {
		if diff := cmp.Diff([]string{module + "/version.Version=v2.4.2"}, target.Defines); diff != "" {
			t.Errorf("definitions of %s (-want +got):\n%s", target.Name, diff)
		}
	}
}

func TestVersionDefines(t *testing.T) {
	want := []string{
		"k8s.io/component-base/version.gitVersion=v1.37.1",
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/component-base/version.gitMinor=37",
		"k8s.io/component-base/version.gitTreeState=clean",
	}
	if diff := cmp.Diff(want, versionDefines("v1.37.1")); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

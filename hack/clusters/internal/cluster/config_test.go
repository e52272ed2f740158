package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

func testCluster(t *testing.T) *Cluster {
	t.Helper()
	entry := &registry.Entry{Plan: registry.Plan{Slot: 4}, Clusters: map[string]int{"c1": 1, "c2": 2}}
	return New("c2", Options{
		Entry: entry, State: t.TempDir(), Bin: "/checkout/.local/bin", Images: "/checkout/.local/images",
		Now: func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) },
	})
}

func TestConfigurationHoldsTheClustersOwnAddressesAndFolders(t *testing.T) {
	c := testCluster(t)
	files, err := c.configure(Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"containerd.toml":       {`root = "` + c.state + `/containerd"`, `conf_dir = "` + c.state + `/config/cni"`},
		"cni.conflist":          {`"subnet": "10.204.32.0/21"`},
		"kubelet.yaml":          {"cgroupRoot: /multicluster-scheduler-4/c2", "podLogsDir: " + c.state + "/pod-logs"},
		"kube-proxy.yaml":       {"clusterCIDR: 10.204.32.0/21", "hostnameOverride: c2-node"},
		"Corefile":              {"bind 10.204.0.12", "kubeconfig " + c.state + "/config/coredns.kubeconfig"},
		"kwok.yaml":             {"cidr: 198.18.64.0/19", "nodeIP: 10.204.0.12", "kwok.x-k8s.io/node=fake"},
		"kwok-stages.yaml":      {"{{ $now := Now }}", "name: pod-delete"},
		"kube-proxy.kubeconfig": {"https://10.204.0.12:6443", c.state + "/pki/kube-proxy.key"},
	} {
		content, err := os.ReadFile(c.configFile(file))
		if err != nil {
			t.Fatal(err)
		}
		if string(content) != files[file] {
			t.Errorf("%s differs from what a restart is decided by", file)
		}
		for _, want := range wants {
			if !strings.Contains(string(content), want) {
				t.Errorf("no %q in %s:\n%s", want, file, content)
			}
		}
	}
	if !json.Valid([]byte(files["cni.conflist"])) {
		t.Errorf("no JSON: %s", files["cni.conflist"])
	}
}

func TestAClusterWithDualStackHasARangeOfEachFamily(t *testing.T) {
	c, spec := testCluster(t), Spec{DualStack: true}
	files, err := c.configure(spec)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cni.conflist":    `"ranges": [[{"subnet": "10.204.32.0/21"}], [{"subnet": "fd6d:6373:1::acc:2000/117"}]]`,
		"kube-proxy.yaml": "clusterCIDR: 10.204.32.0/21,fd6d:6373:1::acc:2000/117\n",
	} {
		if !strings.Contains(files[file], want) {
			t.Errorf("no %q in %s:\n%s", want, file, files[file])
		}
	}
	if !json.Valid([]byte(files["cni.conflist"])) {
		t.Errorf("no JSON: %s", files["cni.conflist"])
	}
	for program, want := range map[string]struct {
		args []string
		arg  string
	}{
		apiServer: {c.apiServerArgs(spec), "--service-cluster-ip-range=10.204.40.0/21,fd6d:6373:1::acc:2800/117"},
		kubelet:   {c.kubeletArgs(spec), "--node-ip=10.204.0.12,fd6d:6373:1::acc:c"},
	} {
		if !slices.Contains(want.args, want.arg) {
			t.Errorf("no %s among the arguments of %s: %v", want.arg, program, want.args)
		}
	}
}

func TestContainerd2RunsWithItsOwnShim(t *testing.T) {
	const folder = "/checkout/.local/bin/containerd-2/"
	c := testCluster(t)
	for name, test := range map[string]struct {
		spec             Spec
		program, runtime string
	}{
		"Debian's": {Spec{}, "containerd", ""},
		"2":        {Spec{Containerd2: true}, folder + "containerd", folder + "containerd-shim-runc-v2"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := c.configure(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			_, path, _ := strings.Cut(files["containerd.toml"], "runtime_path = ")
			path, _, _ = strings.Cut(path, "\n")
			if got := strings.Trim(path, `"`); got != test.runtime {
				t.Errorf("the shim is %q, want %q", got, test.runtime)
			}
			for _, component := range c.foundation(test.spec) {
				if component.name == containerd && component.args[0] != test.program {
					t.Errorf("the program is %q, want %q", component.args[0], test.program)
				}
			}
		})
	}
}

func TestCommandsNameOnlyFilesThatAreMade(t *testing.T) {
	c := testCluster(t)
	if err := c.certify(); err != nil {
		t.Fatal(err)
	}
	files, err := c.configure(Spec{})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{FakeNodes: FakeNodes{Count: 1}}
	for _, component := range append(c.foundation(spec), c.rest(spec)...) {
		for _, arg := range component.args[1:] {
			for path := range strings.SplitSeq(arg[strings.Index(arg, "=")+1:], ",") {
				made := strings.HasPrefix(path, filepath.Join(c.state, "pki")) ||
					strings.HasPrefix(path, filepath.Join(c.state, "config"))
				if _, err := os.Stat(path); made && err != nil {
					t.Errorf("%s: %v", component.name, err)
				}
			}
		}
		for _, name := range component.config {
			if files[name] == "" {
				t.Errorf("%s has a configuration file %q that is not made", component.name, name)
			}
		}
	}
}

func TestComponentsFollowTheSpecification(t *testing.T) {
	c := testCluster(t)
	names := func(spec Spec) (names []string) {
		for _, component := range c.rest(spec) {
			names = append(names, component.name)
		}
		return names
	}
	if slices.Contains(names(Spec{}), kwok) {
		t.Error("kwok runs without simulated nodes")
	}
	if !slices.Contains(names(Spec{FakeNodes: FakeNodes{Count: 1}}), kwok) {
		t.Error("kwok does not run for simulated nodes")
	}
	args := c.controllerManagerArgs(Spec{NodeMonitorGracePeriod: time.Minute})
	if !slices.Contains(args, "--node-monitor-grace-period=1m0s") {
		t.Errorf("no grace period in %q", args)
	}
	if args := c.controllerManagerArgs(Spec{}); strings.Contains(strings.Join(args, " "), "grace-period") {
		t.Errorf("a grace period that nobody asked for in %q", args)
	}
}

func TestOnlyComponentsOfKubernetesHaveTheClustersVersion(t *testing.T) {
	c := testCluster(t)
	c.Bin = "/bin"
	const gates = "--feature-gates=A=true"
	spec := Spec{Kubernetes: "1.36", FeatureGates: "A=true", FakeNodes: FakeNodes{Count: 1}}
	for _, component := range append(c.foundation(spec), c.rest(spec)...) {
		if component.name == containerd {
			continue
		}
		want := "/bin/" + component.name
		if strings.HasPrefix(component.name, "kube") {
			want = "/bin/kubernetes-1.36/" + component.name
		}
		if component.args[0] != want {
			t.Errorf("%s is run, not %s", component.args[0], want)
		}
		gated := component.name == apiServer || component.name == kubelet
		if slices.Contains(component.args, gates) != gated {
			t.Errorf("%s has the arguments %q", component.name, component.args)
		}
	}
}

func TestSpecificationIsKept(t *testing.T) {
	c := testCluster(t)
	if found, err := c.Spec(); err != nil || found != (Spec{}) {
		t.Fatalf("before there is one: %v, %v", found, err)
	}
	want := Spec{
		FakeNodes:              FakeNodes{Count: 5, CPU: "32", Memory: "256Gi", Pods: 110},
		NodeMonitorGracePeriod: time.Minute,
		Kubernetes:             "1.36",
		FeatureGates:           "A=true",
	}
	if err := c.saveSpec(want); err != nil {
		t.Fatal(err)
	}
	got, err := c.Spec()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("specification (-want +got):\n%s", diff)
	}
}

func TestKubeconfigHasAContextForEachCluster(t *testing.T) {
	c := testCluster(t)
	if err := c.certify(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := WriteKubeconfig(path, []*Cluster{c}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"current-context: c2\n", "server: https://10.204.0.12:6443\n",
		"context: {cluster: c2, user: c2-admin}", "client-key-data: LS0t",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("no %q in:\n%s", want, content)
		}
	}
	if err := WriteKubeconfig(path, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there although there are no clusters")
	}
}

func TestCompareNodes(t *testing.T) {
	for name, c := range map[string]struct {
		existing         []string
		count            int
		missing, surplus []string
	}{
		"no node exists":           {count: 2, missing: []string{"kwok-0", "kwok-1"}},
		"all nodes exist":          {count: 1, existing: []string{"kwok-0"}},
		"some nodes are missing":   {count: 3, existing: []string{"kwok-1"}, missing: []string{"kwok-0", "kwok-2"}},
		"one node too many exists": {count: 1, existing: []string{"kwok-0", "kwok-1"}, surplus: []string{"kwok-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			existing := map[string]bool{}
			for _, name := range c.existing {
				existing[name] = true
			}
			missing, surplus := compareNodes(existing, c.count)
			if diff := cmp.Diff([][]string{c.missing, c.surplus}, [][]string{missing, surplus}); diff != "" {
				t.Errorf("missing and surplus (-want +got):\n%s", diff)
			}
		})
	}
}

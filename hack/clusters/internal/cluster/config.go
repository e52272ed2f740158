package cluster

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/machine"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

//go:embed templates
var templates embed.FS

// values are the values that the templates of configuration files can use.
type values struct {
	State, PKI, Node, Cgroup, Server    string
	Address, Pods, FakePods, DNS        string
	CNIPlugins, Snapshotter, User, Name string
	PodsIPv6                            string // empty without dual stack
	Shim                                string // empty with Debian's containerd, which finds its own
}

func (c *Cluster) values(spec Spec) (values, error) {
	snapshotter, err := c.snapshotter()
	v := values{
		State: c.state, PKI: c.store().Dir, Node: c.Node(), Cgroup: c.cgroup(), Server: c.Server(), Name: c.name,
		Address: c.Address().String(), DNS: c.Entry.DNS(c.index).String(),
		Pods: c.Entry.Pods(c.index).String(), FakePods: c.Entry.FakePods(c.index).String(),
		CNIPlugins: machine.CNIPlugins, Snapshotter: snapshotter,
	}
	if spec.DualStack {
		v.PodsIPv6 = registry.IPv6Range(c.Entry.Pods(c.index)).String()
	}
	if spec.Containerd2 {
		v.Shim = c.containerdProgram(spec, "containerd-shim-runc-v2")
	}
	return v, err
}

// configure writes the configuration files of all components, and returns their contents by file name.
func (c *Cluster) configure(spec Spec) (map[string]string, error) {
	v, err := c.values(spec)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range []string{
		"containerd.toml", "cni.conflist", "kubelet.yaml", "kube-proxy.yaml", "Corefile", "kwok.yaml",
	} {
		if files[name], err = render(name, v); err != nil {
			return nil, err
		}
	}
	// The stages are not rendered here: kwok renders these templates.
	stages, err := templates.ReadFile("templates/kwok-stages.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading kwok's stages: %w", err)
	}
	files["kwok-stages.yaml"] = string(stages)
	for _, user := range []string{kubelet, controllerManager, scheduler, kubeProxy, coreDNS, kwok, adminUser} {
		v.User = user
		if files[user+".kubeconfig"], err = render("component.kubeconfig", v); err != nil {
			return nil, err
		}
	}
	for name, content := range files {
		if err := writeConfig(c.configFile(name), content); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (c *Cluster) configFile(name string) string {
	if name == "cni.conflist" {
		return filepath.Join(c.state, "config", "cni", "10-pods.conflist")
	}
	return filepath.Join(c.state, "config", name)
}

func render(name string, v values) (string, error) {
	parsed, err := template.New(name).Option("missingkey=error").ParseFS(templates, "templates/"+name)
	if err != nil {
		return "", fmt.Errorf("parsing the template of %q: %w", name, err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, v); err != nil {
		return "", fmt.Errorf("rendering %q: %w", name, err)
	}
	return out.String(), nil
}

func writeConfig(path, content string) error {
	if present, err := os.ReadFile(path); err == nil && string(present) == content {
		return nil // kube-proxy ends when somebody writes its file, even if it stays the same.
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %q: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

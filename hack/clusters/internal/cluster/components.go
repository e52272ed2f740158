package cluster

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	containerd        = "containerd"
	kubelet           = "kubelet"
	kubeProxy         = "kube-proxy"
	coreDNS           = "coredns"
	kwok              = "kwok"
)

// component is a program that a cluster consists of.
type component struct {
	name string
	args []string
	// config are the names of the component's configuration files.
	config []string
	// onNode is true for components that need the cluster's own mount namespace.
	onNode bool
}

// foundation returns the components that start without an API server.
func (c *Cluster) foundation(spec Spec) []component {
	return []component{
		{name: etcd, args: c.etcdArgs()},
		{name: apiServer, args: c.apiServerArgs(spec)},
		{
			name: containerd, onNode: true,
			args:   []string{c.containerdProgram(spec, containerd), "--config", c.configFile("containerd.toml")},
			config: []string{"containerd.toml", "cni.conflist"},
		},
	}
}

// rest returns the components that need an API server.
func (c *Cluster) rest(spec Spec) []component {
	components := []component{
		{name: controllerManager, args: c.controllerManagerArgs(spec)},
		{name: scheduler, args: c.schedulerArgs(spec)},
		{name: kubelet, onNode: true, args: c.kubeletArgs(spec), config: []string{"kubelet.yaml"}},
		{
			name:   kubeProxy,
			args:   []string{c.kubernetes(spec, kubeProxy), "--config=" + c.configFile("kube-proxy.yaml"), "--v=1"},
			config: []string{"kube-proxy.yaml"},
		},
		{
			name: coreDNS, args: []string{c.bin(coreDNS), "-conf", c.configFile("Corefile")},
			config: []string{"Corefile"},
		},
	}
	if spec.FakeNodes.Count > 0 {
		config := c.configFile("kwok.yaml") + "," + c.configFile("kwok-stages.yaml")
		components = append(components, component{
			name:   kwok,
			args:   []string{c.bin(kwok), "--kubeconfig=" + c.kubeconfig(kwok), "--config=" + config},
			config: []string{"kwok.yaml", "kwok-stages.yaml"},
		})
	}
	return components
}

func (c *Cluster) command(component component, files map[string]string) process.Command {
	place := process.Place{Cgroup: c.componentsCgroup(), Net: c.Network().Place(c.name)}
	if component.onNode {
		place.Mounts = c.mountPin()
	}
	var config strings.Builder
	for _, name := range component.config {
		config.WriteString(files[name])
	}
	return process.Command{
		Place: place, Args: component.args, Config: config.String(),
		Log: c.logFile(component.name), Record: c.recordFile(component.name),
	}
}

func (c *Cluster) etcdArgs() []string {
	const peer = "http://127.0.0.1:2380"
	return []string{
		c.bin(etcd),
		"--name=" + c.name,
		"--data-dir=" + filepath.Join(c.state, etcd),
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + c.name + "=" + peer,
		"--unsafe-no-fsync", "--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs(spec Spec) []string {
	store := c.store()
	args := []string{
		c.kubernetes(spec, apiServer),
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + c.Address().String(),
		fmt.Sprintf("--secure-port=%d", apiServerPort),
		"--service-cluster-ip-range=" + serviceRanges(c.Entry.Services(c.index), spec),
		"--tls-cert-file=" + store.Cert(apiServer), "--tls-private-key-file=" + store.Key(apiServer),
		"--client-ca-file=" + store.Cert(authority),
		"--kubelet-client-certificate=" + store.Cert("kube-apiserver-kubelet-client"),
		"--kubelet-client-key=" + store.Key("kube-apiserver-kubelet-client"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + store.Cert(frontProxyAuthority),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + store.Cert("front-proxy-client"),
		"--proxy-client-key-file=" + store.Key("front-proxy-client"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + store.Key(serviceAccountKey),
		"--service-account-key-file=" + store.Public(serviceAccountKey),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
	}
	return append(args, featureGates(spec)...)
}

func featureGates(spec Spec) []string {
	if spec.FeatureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + spec.FeatureGates}
}

func (c *Cluster) controllerManagerArgs(spec Spec) []string {
	store := c.store()
	args := []string{
		c.kubernetes(spec, controllerManager),
		"--kubeconfig=" + c.kubeconfig(controllerManager),
		"--authentication-kubeconfig=" + c.kubeconfig(controllerManager),
		"--authorization-kubeconfig=" + c.kubeconfig(controllerManager),
		"--cluster-signing-cert-file=" + store.Cert(authority), "--cluster-signing-key-file=" + store.Key(authority),
		"--root-ca-file=" + store.Cert(authority),
		"--service-account-private-key-file=" + store.Key(serviceAccountKey),
		"--use-service-account-credentials",
		"--leader-elect=false",
		"--kube-api-qps=1000", "--kube-api-burst=1000",
	}
	if spec.NodeMonitorGracePeriod > 0 {
		args = append(args, "--node-monitor-grace-period="+spec.NodeMonitorGracePeriod.String())
	}
	return args
}

func (c *Cluster) schedulerArgs(spec Spec) []string {
	return []string{
		c.kubernetes(spec, scheduler),
		"--kubeconfig=" + c.kubeconfig(scheduler),
		"--authentication-kubeconfig=" + c.kubeconfig(scheduler),
		"--authorization-kubeconfig=" + c.kubeconfig(scheduler),
		"--leader-elect=false",
		"--kube-api-qps=1000", "--kube-api-burst=1000",
	}
}

func (c *Cluster) kubeletArgs(spec Spec) []string {
	args := []string{
		c.kubernetes(spec, kubelet),
		"--config=" + c.configFile("kubelet.yaml"),
		"--kubeconfig=" + c.kubeconfig(kubelet),
		"--hostname-override=" + c.Node(),
		"--node-ip=" + nodeAddresses(c.Address(), spec),
		"--v=1",
	}
	return append(args, featureGates(spec)...)
}

func serviceRanges(v4 netip.Prefix, spec Spec) string {
	if !spec.DualStack {
		return v4.String()
	}
	return v4.String() + "," + registry.IPv6Range(v4).String()
}

func nodeAddresses(v4 netip.Addr, spec Spec) string {
	if !spec.DualStack {
		return v4.String()
	}
	return v4.String() + "," + registry.IPv6(v4).String()
}

func (c *Cluster) bin(name string) string { return filepath.Join(c.Bin, name) }

// kubernetes returns the path of a component of Kubernetes in the cluster's version.
func (c *Cluster) kubernetes(spec Spec, name string) string {
	return filepath.Join(KubernetesBin(c.Bin, spec.Kubernetes), name)
}

// KubernetesBin returns the folder of the components of a minor version, given that of all programs. The empty minor
// version is that of the checkout.
func KubernetesBin(bin, minor string) string {
	if minor == "" {
		return bin
	}
	return filepath.Join(bin, "kubernetes-"+minor)
}

// containerdProgram returns a program of the containerd that the cluster runs: that of Debian, or that of the checkout.
func (c *Cluster) containerdProgram(spec Spec, name string) string {
	if spec.Containerd2 {
		return filepath.Join(Containerd2Bin(c.Bin), name)
	}
	return name
}

// Containerd2Bin returns the folder of containerd 2, given that of all programs. It is not called after the program:
// the folder of all programs may be in the PATH.
func Containerd2Bin(bin string) string { return filepath.Join(bin, "containerd-2") }

func (c *Cluster) kubeconfig(user string) string { return c.configFile(user + ".kubeconfig") }

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Configuration is the configuration of the manager. Every field is optional: SetDefaults sets the defaults.
//
// +kubebuilder:object:root=true
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// ClusterName is the value of the label parent-cluster-name of PodChaperons and delegates, for people to read.
	ClusterName string `json:"clusterName,omitempty"`
	// ClusterID distinguishes this source cluster from others in the targets that they share. The default is the UID of
	// the namespace kube-system.
	ClusterID string `json:"clusterID,omitempty"`
	// Roles are the roles that this manager plays: source, target, or both. The default is both.
	Roles Roles `json:"roles,omitempty"`
	// LeaderElection is on by default. Without leader election, only one replica may run.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Metrics is the address of the Prometheus metrics, and who may read them.
	Metrics Metrics `json:"metrics,omitempty"`
	// Health is the address of /healthz and /readyz.
	Health Endpoint `json:"health,omitempty"`
	// Webhook configures the admission webhook.
	Webhook Webhook `json:"webhook,omitempty"`
	// KubeletAPI configures logs and exec of the pods on virtual nodes.
	KubeletAPI KubeletAPI `json:"kubeletAPI,omitempty"`
	// Placement configures how pods are placed in targets.
	Placement Placement `json:"placement,omitempty"`
	// DaemonSets configures what happens to pods of DaemonSets on virtual nodes.
	DaemonSets DaemonSets `json:"daemonSets,omitempty"`
	// Proof configures how this cluster recognises the PodChaperons that it made.
	Proof Proof `json:"proof,omitempty"`
	// Tokens configures how the tokens for targets are renewed.
	Tokens Tokens `json:"tokens,omitempty"`
	// Tenants limits Targets, which tenants may write. ClusterTargets are not limited.
	Tenants Tenants `json:"tenants,omitempty"`
	// Capacity configures the information that sources get about this cluster.
	Capacity Capacity `json:"capacity,omitempty"`
	// SourceController configures the controller of Sources and ClusterSources.
	SourceController SourceController `json:"sourceController,omitempty"`
	// Endpoints limits where EndpointSlices that sources write in this cluster may lead.
	Endpoints Endpoints `json:"endpoints,omitempty"`
	// Leases configures the Leases with which sources see that this cluster's manager is awake, and those that sources
	// hold while they act here.
	Leases Leases `json:"leases,omitempty"`
	// GarbageCollection configures the deletion of copies that no pod needs any more.
	GarbageCollection GarbageCollection `json:"garbageCollection,omitempty"`
	// SecretNamespaces are the namespaces whose Secrets the manager may read and delete, to delete copies that no pod
	// needs any more. If empty, these are all namespaces.
	SecretNamespaces []string `json:"secretNamespaces,omitempty"`
}

// Roles are the roles that a manager plays. It plays at least one.
type Roles struct {
	// Source is true by default: pods of this cluster can be elected.
	Source *bool `json:"source,omitempty"`
	// Target is true by default: this cluster runs pods of sources.
	Target *bool `json:"target,omitempty"`
}

// LeaderElection configures the election of a leader among the manager's replicas.
type LeaderElection struct {
	// Enabled is true by default.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespace is the namespace of the Lease. The default is the namespace of the manager's pod.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the Lease. The default is multicluster-scheduler.
	Name string `json:"name,omitempty"`
}

// Endpoint is an address at which the manager listens.
type Endpoint struct {
	// BindAddress is the address, for example ":8080". The value "0" switches the endpoint off.
	BindAddress string `json:"bindAddress,omitempty"`
}

// Metrics configures the endpoint of the Prometheus metrics.
type Metrics struct {
	// BindAddress is the address. The default is ":8080". The value "0" switches the endpoint off.
	BindAddress string `json:"bindAddress,omitempty"`
	// Secure serves the metrics over TLS, to those who may get the path /metrics of the API server. By default, they
	// are served in the clear to everybody.
	Secure bool `json:"secure,omitempty"`
}

// Webhook configures the admission webhook and its certificate. A source has a webhook for pods, and a target has one
// for copies.
type Webhook struct {
	// Port is the port of the webhook. The default is 9443.
	Port int `json:"port,omitempty"`
	// CertDir is the folder of tls.crt and tls.key. The manager reads them again when they change.
	CertDir string `json:"certDir,omitempty"`
	// ConfigurationName names the webhook configurations into which somebody, such as cert-manager, writes the
	// authority of the certificate in CertDir. The manager is not ready before. If empty, the manager does not check.
	ConfigurationName string `json:"configurationName,omitempty"`
	// SelfManaged lets the manager issue, rotate and distribute the certificate.
	SelfManaged *SelfManagedCertificate `json:"selfManaged,omitempty"`
}

// SelfManagedCertificate is a certificate that the manager issues itself, with a certificate authority that it keeps in
// a Secret.
type SelfManagedCertificate struct {
	// SecretName is the name of the Secret with the certificates, in the manager's namespace.
	SecretName string `json:"secretName"`
	// ServiceName is the name of the Service that API servers call, in the manager's namespace.
	ServiceName string `json:"serviceName"`
	// WebhookConfigurationName is the name of the webhook configurations that get the certificate authority: the
	// MutatingWebhookConfiguration of a source, and the ValidatingWebhookConfiguration of a target.
	WebhookConfigurationName string `json:"webhookConfigurationName"`
}

// KubeletAPI configures the kubelet API, which the source's API server calls for logs and exec.
type KubeletAPI struct {
	// Enabled is true by default. Without it, virtual nodes have no address, and there is no explanation of pods.
	Enabled *bool `json:"enabled,omitempty"`
	// Port is the port of the kubelet API. The default is 10250.
	Port int `json:"port,omitempty"`
	// CertificateSignerName is the signer of the serving certificate, for example kubernetes.io/kubelet-serving. By
	// default, the certificate is self-signed, which API servers accept from kubelets unless configured otherwise.
	CertificateSignerName string `json:"certificateSignerName,omitempty"`
}

// PlacementStrategy decides which of several fitting targets is preferred.
//
// +enum
type PlacementStrategy string

const (
	// Spread prefers the target with the smallest share in use.
	Spread PlacementStrategy = "spread"
	// Pack prefers the target with the largest share in use.
	Pack PlacementStrategy = "pack"
)

// Placement configures how pods are placed in targets.
type Placement struct {
	// Strategy is the placement strategy. The default is spread.
	Strategy PlacementStrategy `json:"strategy,omitempty"`
	// Timeout is how long one target may take to schedule a delegate before another target is tried. The default is
	// 60s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// KeepLabels gives delegates the labels of their pods under their own keys, too, in targets whose field keepLabels
	// does not say otherwise.
	KeepLabels bool `json:"keepLabels,omitempty"`
	// AnnotationsFromTargets are the annotations that others in a target give a delegate, and that its pod is to have,
	// too: keys, or all keys of a domain ("example.com/*"). The default is none. It counts for pods that are placed
	// from now on.
	AnnotationsFromTargets []string `json:"annotationsFromTargets,omitempty"`
}

// DaemonSets configures what happens to pods of DaemonSets on virtual nodes, where nothing runs for them.
type DaemonSets struct {
	// Acknowledge is true by default: these pods count as ready, so that they do not hold up their DaemonSets. Without
	// it, they stay Pending.
	Acknowledge *bool `json:"acknowledge,omitempty"`
}

// Proof configures the key with which this cluster, as a source, signs the PodChaperons that it makes in targets.
type Proof struct {
	// SecretName is the name of the Secret of the key, in the manager's namespace. The manager fills an empty Secret.
	// The default is multicluster-scheduler-proof.
	SecretName string `json:"secretName,omitempty"`
}

// Tokens configures the renewal of the tokens with which this cluster, as a source, connects to targets.
type Tokens struct {
	// SecretName is the name of the Secret of renewed tokens, in the manager's namespace. The default is
	// multicluster-scheduler-tokens.
	SecretName string `json:"secretName,omitempty"`
}

// Tenants limits Targets, the kind that tenants may write in their namespaces.
type Tenants struct {
	// Enforce refuses Targets that exceed the limits. Otherwise the manager only warns, by the condition Restricted and
	// an event.
	Enforce bool `json:"enforce,omitempty"`
	// AllowLoopback lets Targets lead to loopback, link-local and multicast addresses.
	AllowLoopback bool `json:"allowLoopback,omitempty"`
	// AllowOwnAddresses lets Targets lead to addresses of this cluster's own nodes, Services, pods and API servers.
	AllowOwnAddresses bool `json:"allowOwnAddresses,omitempty"`
	// AllowInsecure lets kubeconfigs of Targets say insecure-skip-tls-verify.
	AllowInsecure bool `json:"allowInsecure,omitempty"`
	// AllowProxy lets kubeconfigs of Targets say proxy-url.
	AllowProxy bool `json:"allowProxy,omitempty"`
	// NodeLabels are the keys of labels that virtual nodes of Targets get from nodes of the target. A key that ends in
	// an asterisk stands for all keys that begin so.
	NodeLabels []string `json:"nodeLabels,omitempty"`
	// AllowedPodCIDRs are the ranges from which pods in targets of namespaces may have addresses. Proxies do not show
	// other addresses.
	AllowedPodCIDRs []string `json:"allowedPodCIDRs,omitempty"`
}

// SourceController configures the controller that creates service accounts and role bindings for Sources and
// ClusterSources.
type SourceController struct {
	// Enabled is true by default.
	Enabled *bool `json:"enabled,omitempty"`
	// ClusterRoleName is the ClusterRole with the rights of a source in the namespaces that it may use. The default is
	// multicluster-scheduler-source.
	ClusterRoleName string `json:"clusterRoleName,omitempty"`
	// SummaryViewerClusterRoleName is the ClusterRole with the right to read the ClusterSummary. The default is
	// multicluster-scheduler-cluster-summary-viewer.
	SummaryViewerClusterRoleName string `json:"summaryViewerClusterRoleName,omitempty"`
	// LeavingClusterRoleName is the ClusterRole with the rights of a source in the namespaces that it no longer may
	// use. The default is multicluster-scheduler-source-leaving.
	LeavingClusterRoleName string `json:"leavingClusterRoleName,omitempty"`
	// EarlierClusterRoleName is the ClusterRole with which sources of earlier versions read PodChaperons in the whole
	// cluster. The default is multicluster-scheduler-source-earlier.
	EarlierClusterRoleName string `json:"earlierClusterRoleName,omitempty"`
	// EnforceDefaultExclusions refuses ClusterSources the namespaces that they do not get by default, even if they used
	// them when an earlier version let them.
	EnforceDefaultExclusions bool `json:"enforceDefaultExclusions,omitempty"`
}

// Endpoints limits where EndpointSlices that sources write in this cluster, as a target, may lead.
type Endpoints struct {
	// Check is true by default. Without it, the target has no webhook. EndpointSlices of sources may then belong to any
	// Service of their namespace, and may have any address.
	Check *bool `json:"check,omitempty"`
	// AllowedCIDRs are the ranges of the addresses. If empty, these are all that this cluster does not use.
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
}

// Leases configures the Leases of a target.
type Leases struct {
	// Namespace is the namespace that has these Leases, and nothing else. If empty, there are none.
	Namespace string `json:"namespace,omitempty"`
}

// Capacity configures the information that sources get about this cluster if it is their target.
type Capacity struct {
	// ExcludedLabelsRegexp is a regular expression (RE2). Labels of nodes whose key=value it matches never leave this
	// cluster, and sources cannot choose nodes by them.
	ExcludedLabelsRegexp string `json:"excludedLabelsRegexp,omitempty"`
}

// GarbageCollection configures the deletion of copies that no pod needs any more, in a target.
type GarbageCollection struct {
	// Enabled is true by default. Without it, copies of ConfigMaps, Secrets and ServiceAccounts stay.
	Enabled *bool `json:"enabled,omitempty"`
}

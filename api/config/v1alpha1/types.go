package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Configuration of the manager. Every field is optional; SetDefaults fills what is left out, Validate says what is wrong.
//
// +kubebuilder:object:root=true
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// ClusterName is put on PodChaperons and delegates as the label parent-cluster-name, for people to read.
	ClusterName string `json:"clusterName,omitempty"`
	// ClusterID tells this source cluster from others in the targets that they share. It defaults to the UID of the
	// namespace kube-system.
	ClusterID string `json:"clusterID,omitempty"`
	// LeaderElection is on by default; without it, only one replica may run.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Metrics serves Prometheus metrics.
	Metrics Endpoint `json:"metrics,omitempty"`
	// Health serves /healthz and /readyz.
	Health Endpoint `json:"health,omitempty"`
	// Webhook serves the admission webhook.
	Webhook Webhook `json:"webhook,omitempty"`
	// KubeletAPI serves logs and exec of the pods on virtual nodes.
	KubeletAPI KubeletAPI `json:"kubeletAPI,omitempty"`
	// Placement tells how pods are placed in targets.
	Placement Placement `json:"placement,omitempty"`
	// Capacity tells what sources see of this cluster.
	Capacity Capacity `json:"capacity,omitempty"`
	// SourceController makes service accounts and role bindings for Sources and ClusterSources.
	SourceController SourceController `json:"sourceController,omitempty"`
	// SecretNamespaces are the namespaces whose Secrets the manager may read and delete: copies that nobody needs any more are removed
	// there. All, if there are none.
	SecretNamespaces []string `json:"secretNamespaces,omitempty"`
}

// LeaderElection of the manager's replicas.
type LeaderElection struct {
	// Enabled is true by default.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespace of the Lease; the pod's own by default.
	Namespace string `json:"namespace,omitempty"`
	// Name of the Lease; multicluster-scheduler by default.
	Name string `json:"name,omitempty"`
}

// Endpoint is an address to listen at.
type Endpoint struct {
	// BindAddress as in ":8080"; "0" switches the endpoint off.
	BindAddress string `json:"bindAddress,omitempty"`
}

// Webhook is the admission webhook and its certificate.
type Webhook struct {
	// Port to listen at, 9443 by default.
	Port int `json:"port,omitempty"`
	// CertDir holds tls.crt and tls.key, which are read anew when they change.
	CertDir string `json:"certDir,omitempty"`
	// SelfManaged lets the manager make, rotate and distribute the certificate.
	SelfManaged *SelfManagedCertificate `json:"selfManaged,omitempty"`
}

// SelfManagedCertificate is a certificate that the manager issues itself, from a certificate authority that it keeps in a Secret.
type SelfManagedCertificate struct {
	// SecretName, in the manager's namespace, of the Secret that keeps the certificates.
	SecretName string `json:"secretName"`
	// ServiceName, in the manager's namespace, of the Service that API servers call.
	ServiceName string `json:"serviceName"`
	// WebhookConfigurationName of the MutatingWebhookConfiguration that gets the certificate authority.
	WebhookConfigurationName string `json:"webhookConfigurationName"`
}

// KubeletAPI is what the source's API server calls for logs and exec.
type KubeletAPI struct {
	// Port to listen at, 10250 by default.
	Port int `json:"port,omitempty"`
	// CertificateSignerName requests the serving certificate from this signer (kubernetes.io/kubelet-serving, say); by default
	// it is self-signed, which API servers accept from kubelets unless told otherwise.
	CertificateSignerName string `json:"certificateSignerName,omitempty"`
}

// PlacementStrategy says which of several fitting targets is preferred.
//
// +enum
type PlacementStrategy string

const (
	// Spread prefers the target with the smallest share in use.
	Spread PlacementStrategy = "spread"
	// Pack prefers the target with the largest share in use.
	Pack PlacementStrategy = "pack"
)

// Placement of pods in targets.
type Placement struct {
	// Strategy is spread by default.
	Strategy PlacementStrategy `json:"strategy,omitempty"`
	// Timeout is how long one target may take to schedule a delegate before another is tried; 60s by default.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// SourceController makes service accounts and role bindings.
type SourceController struct {
	// Enabled is true by default.
	Enabled *bool `json:"enabled,omitempty"`
	// ClusterRoleName is the rights that a source gets in the namespaces that it may use; multicluster-scheduler-source by default.
	ClusterRoleName string `json:"clusterRoleName,omitempty"`
	// SummaryViewerClusterRoleName is the right to read the ClusterSummary; multicluster-scheduler-cluster-summary-viewer by default.
	SummaryViewerClusterRoleName string `json:"summaryViewerClusterRoleName,omitempty"`
}

// Capacity is what sources are told of this cluster when it is their target.
type Capacity struct {
	// ExcludedLabelsRegexp is an RE2; labels of nodes whose key=value match it never leave this cluster. Sources cannot choose nodes by them.
	ExcludedLabelsRegexp string `json:"excludedLabelsRegexp,omitempty"`
}

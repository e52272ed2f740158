package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Spec holds the settings that a person can choose for a cluster. The cluster's state contains it.
type Spec struct {
	FakeNodes FakeNodes `json:"fakeNodes"`
	// NodeMonitorGracePeriod is the controller manager's flag of this name. Zero stands for the default of Kubernetes.
	NodeMonitorGracePeriod time.Duration `json:"nodeMonitorGracePeriod"`
	// Kubernetes is the minor version, "1.36" say. If it is empty, the cluster runs that of the checkout.
	Kubernetes string `json:"kubernetes,omitempty"`
	// FeatureGates are those of the API server and the kubelet, as in their flags.
	FeatureGates string `json:"featureGates,omitempty"`
	// Containerd2 runs containerd 2, built from its module, in place of Debian's. It knows volumes of images, and the
	// devices of the Container Device Interface.
	Containerd2 bool `json:"containerd2,omitempty"`
	// DualStack gives pods, Services and the real node IPv6 addresses, too. Simulated nodes and their pods have none.
	DualStack bool `json:"dualStack,omitempty"`
}

// FakeNodes are the nodes that kwok simulates.
type FakeNodes struct {
	Count int `json:"count"`
	// CPU, Memory and Pods are the allocatable resources of each simulated node.
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	Pods   int    `json:"pods"`
}

// Spec returns the settings of the last Start, or the zero Spec.
func (c *Cluster) Spec() (Spec, error) {
	var spec Spec
	content, err := os.ReadFile(c.specFile())
	if errors.Is(err, os.ErrNotExist) {
		return spec, nil
	}
	if err != nil {
		return spec, fmt.Errorf("reading the specification of cluster %q: %w", c.name, err)
	}
	if err := json.Unmarshal(content, &spec); err != nil {
		return spec, fmt.Errorf("reading the specification of cluster %q: %w", c.name, err)
	}
	return spec, nil
}

func (c *Cluster) saveSpec(spec Spec) error {
	content, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the specification of cluster %q: %w", c.name, err)
	}
	return writeConfig(c.specFile(), string(content))
}

func (c *Cluster) specFile() string { return filepath.Join(c.state, "spec.json") }

package targetkind

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// New returns an empty object of the key's kind, for a client to read into.
func New(key types.NamespacedName) client.Object {
	if key.Namespace == "" {
		return &v1alpha1.ClusterTarget{}
	}
	return &v1alpha1.Target{}
}

// Spec returns the spec of a ClusterTarget or Target. The Secret of a Target gets the namespace of the Target.
func Spec(target client.Object) v1alpha1.ClusterTargetSpec {
	switch t := target.(type) {
	case *v1alpha1.ClusterTarget:
		return t.Spec
	case *v1alpha1.Target:
		spec := v1alpha1.ClusterTargetSpec{
			Self:                 t.Spec.Self,
			ClusterID:            t.Spec.ClusterID,
			ExcludedLabelsRegexp: t.Spec.ExcludedLabelsRegexp,
			PlacementPolicy:      t.Spec.PlacementPolicy,
		}
		if secret := t.Spec.KubeconfigSecret; secret != nil {
			spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{Namespace: t.Namespace, KubeconfigSecret: *secret}
		}
		return spec
	}
	return v1alpha1.ClusterTargetSpec{}
}

// Status returns the status of a ClusterTarget or Target. The caller must not change it.
func Status(target client.Object) v1alpha1.TargetStatus {
	switch t := target.(type) {
	case *v1alpha1.ClusterTarget:
		return t.Status
	case *v1alpha1.Target:
		return t.Status
	}
	return v1alpha1.TargetStatus{}
}

// Name returns the name of a target in messages and metrics: name, or namespace/name.
func Name(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

func kindOf(target client.Object) string {
	if target.GetNamespace() == "" {
		return "ClusterTarget"
	}
	return "Target"
}

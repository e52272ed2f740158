package cluster

import (
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// FieldOwner is the name of the commands in managedFields.
	FieldOwner = "kubectl-multicluster"

	// LabelManagedBy with the value FieldOwner marks objects that the commands created, and may replace and delete.
	LabelManagedBy = "app.kubernetes.io/managed-by"
)

// Name returns an object's name for messages: "name", or "namespace/name".
func Name(object client.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// Describe returns an object's kind and name for messages.
func (c *Cluster) Describe(object client.Object) string {
	gvk, err := c.Client.GroupVersionKindFor(object)
	if err != nil {
		return Name(object)
	}
	return gvk.Kind + " " + Name(object)
}

// Say prints a line about the cluster.
func (c *Cluster) Say(out io.Writer, format string, args ...any) {
	fmt.Fprintf(out, "%s: %s\n", c.Context, fmt.Sprintf(format, args...))
}

// CreatedByCommand says whether a command created the object.
func CreatedByCommand(object client.Object) bool {
	return object.GetLabels()[LabelManagedBy] == FieldOwner
}

// Conditions returns the conditions of an object of one of our kinds.
func Conditions(object client.Object) []metav1.Condition {
	switch o := object.(type) {
	case *v1alpha1.Source:
		return o.Status.Conditions
	case *v1alpha1.ClusterSource:
		return o.Status.Conditions
	case *v1alpha1.Target:
		return o.Status.Conditions
	case *v1alpha1.ClusterTarget:
		return o.Status.Conditions
	default:
		return nil
	}
}

func applyConfiguration(object client.Object) (runtime.ApplyConfiguration, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", Name(object), err)
	}
	unstructured.RemoveNestedField(raw, "status")
	unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
	return client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: raw}), nil
}

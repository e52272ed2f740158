package capacity

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestPublishWritesOnlyDifferences(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var writes []string
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ClusterSummary{}).Build()
	p := New(Options{Client: interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			writes = append(writes, "create")
			return c.Create(ctx, o, options...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			writes = append(writes, "totals")
			return c.Patch(ctx, o, patch, options...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			writes = append(writes, sub)
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	})})
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"an empty cluster of unknown version", func() {}, []string{"create"}},
		{"nothing changes", func() {}, nil},
		{"the version becomes known", func() { p.version = "v1.37.1" }, []string{"status"}},
		{
			"a node that is not in round numbers", func() { p.account.setNode(node("a", "1999m", "1000")) },
			[]string{"totals", "status"},
		},
		{"nothing changes", func() {}, nil},
		{"a pod", func() { p.account.setPod(pod("p", "a", "1", "5")) }, []string{"status"}},
		{"nothing changes", func() {}, nil},
		{
			"the pod becomes a delegate",
			func() { p.account.setPod(pod("p", "a", "1", "5", delegate("s", "proxy-1"))) }, []string{"status"},
		},
		{
			"a delegate with the same requests takes its place",
			func() { p.account.setPod(pod("p", "a", "1", "5", delegate("s", "proxy-2"))) }, []string{"status"},
		},
		{"the version becomes unknown", func() { p.version = "" }, nil},
		{
			"a label", func() { p.account.setNode(node("a", "1999m", "1000", label("zone", "z"))) },
			[]string{"totals", "status"},
		},
		{"a cordon", func() { p.account.setNode(node("a", "1999m", "1000", cordoned)) }, []string{"totals", "status"}},
	} {
		writes = nil
		step.change()
		if err := p.publish(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, writes); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", step.name, diff)
		}
		got := &v1alpha1.ClusterSummary{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterSummaryName}, got); err != nil {
			t.Fatal(err)
		}
		want := p.account.summary()
		want.Status.KubernetesVersion = got.Status.KubernetesVersion
		if !equality.Semantic.DeepEqual(got.Labels, want.Labels) ||
			!equality.Semantic.DeepEqual(got.Capacity, want.Capacity) ||
			!equality.Semantic.DeepEqual(got.Allocatable, want.Allocatable) ||
			!equality.Semantic.DeepEqual(got.Status, want.Status) {
			t.Errorf("%s: published %v, want %v", step.name, got, want)
		}
	}
}

package targetkind_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

func TestWriterWritesOnlyDifferences(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Target{}).
		WithObjects(&v1alpha1.Target{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c2", Generation: 3},
		}).Build()
	clock := testclock.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.Local))
	start := metav1.NewTime(clock.Now())
	key := client.ObjectKey{Namespace: "default", Name: "c2"}
	write := func(status metav1.ConditionStatus, reason string) bool {
		t.Helper()
		target := targetkind.New(key)
		if err := c.Get(t.Context(), key, target); err != nil {
			t.Fatal(err)
		}
		part := v1alpha1.TargetStatus{
			NodeName:   "admiralty-default-c2",
			Conditions: []metav1.Condition{{Type: "Connected", Status: status, Reason: reason}},
		}
		written, err := targetkind.Writer{Client: c, Owner: "owner", Clock: clock}.Write(t.Context(), target, part)
		if err != nil {
			t.Fatal(err)
		}
		return written
	}

	expect := func(reason string, since metav1.Time) {
		t.Helper()
		target := &v1alpha1.Target{}
		if err := c.Get(t.Context(), key, target); err != nil {
			t.Fatal(err)
		}
		status := metav1.ConditionTrue
		if reason == "Broken" {
			status = metav1.ConditionFalse
		}
		want := v1alpha1.TargetStatus{
			NodeName: "admiralty-default-c2",
			Conditions: []metav1.Condition{{
				Type: "Connected", Status: status, Reason: reason, LastTransitionTime: since, ObservedGeneration: 3,
			}},
		}
		if diff := cmp.Diff(want, target.Status); diff != "" {
			t.Error(diff)
		}
	}

	if !write(metav1.ConditionTrue, "Fine") {
		t.Error("nothing was written")
	}
	expect("Fine", start)
	clock.SetTime(start.Add(time.Hour))
	if write(metav1.ConditionTrue, "Fine") {
		t.Error("the same status was written again")
	}
	write(metav1.ConditionTrue, "Better")
	expect("Better", start)
	write(metav1.ConditionFalse, "Broken")
	expect("Broken", metav1.NewTime(start.Add(time.Hour)))
}

func TestAConditionThatIsLeftOutIsRemoved(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ClusterTarget{}).
		WithObjects(&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}).Build()
	w := targetkind.Writer{
		Client: c, Owner: "owner", Clock: testclock.NewFakePassiveClock(time.Now()), Passing: []string{"Warning"},
	}
	always := metav1.Condition{Type: "Connected", Status: metav1.ConditionTrue, Reason: "Fine"}
	warning := metav1.Condition{Type: "Warning", Status: metav1.ConditionFalse, Reason: "Soon"}
	for _, conditions := range [][]metav1.Condition{{always, warning}, {always}} {
		target := &v1alpha1.ClusterTarget{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "c2"}, target); err != nil {
			t.Fatal(err)
		}
		for _, again := range []bool{false, true} {
			written, err := w.Write(t.Context(), target, v1alpha1.TargetStatus{Conditions: conditions})
			if err != nil || written == again {
				t.Fatalf("written is %t (%v), again %t", written, err, again)
			}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "c2"}, target); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(target.Status.Conditions); got != len(conditions) {
			t.Errorf("there are %d conditions, want %d", got, len(conditions))
		}
	}
}

func TestSecretOfATargetIsInItsNamespace(t *testing.T) {
	policy := v1alpha1.PlacementPolicy{Weight: ptr.To[int32](50), ScaleUp: &v1alpha1.ScaleUp{}}
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
		Spec: v1alpha1.TargetSpec{
			KubeconfigSecret: &v1alpha1.KubeconfigSecret{Name: "c2", Key: "k"}, ExcludedLabelsRegexp: "x",
			PlacementPolicy: policy, ClusterID: "id",
		},
	}
	want := v1alpha1.ClusterTargetSpec{
		KubeconfigSecret: &v1alpha1.ClusterKubeconfigSecret{
			Namespace: "default", KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "c2", Key: "k"},
		},
		ExcludedLabelsRegexp: "x",
		PlacementPolicy:      policy,
		ClusterID:            "id",
	}
	if diff := cmp.Diff(want, targetkind.Spec(target)); diff != "" {
		t.Error(diff)
	}
}

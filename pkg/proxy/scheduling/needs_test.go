package scheduling

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// followed is a Follower with a few answers.
type followed struct {
	missing, ensured error
	objection        string
	// releasable says that the objection does not count if the pod leaves a target. used and kept are why it cannot.
	releasable        bool
	used, kept        error
	refused, released []string // names of pods and nodes
}

func (f *followed) Missing(*corev1.Pod) error { return f.missing }

func (f *followed) Objection(_ *corev1.Pod, _, from *engage.Target) string {
	if from != nil && f.releasable {
		return ""
	}
	return f.objection
}

func (f *followed) MayRelease(context.Context, *corev1.Pod, *engage.Target) error { return f.used }

func (f *followed) Release(_ context.Context, pod *corev1.Pod, from *engage.Target) error {
	f.released = append(f.released, pod.Name+" in "+from.NodeName)
	return f.kept
}

func (f *followed) Ensure(context.Context, *corev1.Pod, *engage.Target) error { return f.ensured }

func (f *followed) Refused(pod *corev1.Pod, target *engage.Target) {
	f.refused = append(f.refused, pod.Name+" in "+target.NodeName)
}

func TestAPodThatLacksSomethingIsScheduledWhenItAppears(t *testing.T) {
	w := newWorld()
	lacks := &followed{
		missing: &needs.MissingError{
			Namespace: "default",
			Refs:      []needs.Ref{{Resource: needs.ConfigMaps, Name: "a"}, {Resource: needs.Secrets, Name: "b"}},
		},
	}
	w.follower = lacks
	at := w.engage(t, "c1", interceptor.Funcs{})
	pod := newPod("p", nil)
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "b"}}},
	}
	appeared := appearance{"default", needs.Ref{Resource: needs.Secrets, Name: "b"}}

	_, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
	const reason = `ConfigMap "a", Secret "b" do not exist in namespace "default": the pod cannot start without`
	if status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != reason {
		t.Errorf("PreFilter: got %v, want %q", status, reason)
	}
	hint := func(f fwk.QueueingHintFn, object any) fwk.QueueingHint {
		t.Helper()
		h, err := f(klog.Background(), pod, nil, object)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if hint(w.afterNeedsAppeared, appeared) != fwk.QueueSkip || hint(w.afterTargetChange, at) != fwk.QueueSkip {
		t.Error("the pod is scheduled again although it still lacks something")
	}
	lacks.missing = nil
	for name, other := range map[string]appearance{
		"in another namespace":                {"other", appeared.ref},
		"that it does not refer to":           {"default", needs.Ref{Resource: needs.ConfigMaps, Name: "b"}},
		"with the claims, of which it has no": {namespace: "default"},
	} {
		if hint(w.afterNeedsAppeared, other) != fwk.QueueSkip {
			t.Errorf("the pod is scheduled again for what appeared %s", name)
		}
	}
	if hint(w.afterNeedsAppeared, appeared) != fwk.Queue {
		t.Error("the pod is not scheduled again")
	}
	pod.Spec.Volumes = []corev1.Volume{
		{
			Name: "v",
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			},
		},
	}
	if hint(w.afterNeedsAppeared, appearance{namespace: "default"}) != fwk.Queue {
		t.Error("a pod with a claim is not scheduled again when claims are elsewhere")
	}
	pod.Spec.Volumes = nil

	lacks.missing = errors.New("deleted meanwhile")
	w.placer.Delegates.Seen(at.Target, newChaperon("d", "p", func(c *v1alpha1.PodChaperon) { c.Name = "web" }))
	if _, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil); !status.IsSuccess() {
		t.Errorf("a pod that has a delegate is rejected: %v", status)
	}
}

func TestAPodWithClaimsGoesWhereTheyAre(t *testing.T) {
	w := newWorld()
	w.follower = &followed{objection: "no such claim"}
	at := w.engage(t, "c1", interceptor.Funcs{})
	for name, test := range map[string]struct {
		volume corev1.VolumeSource
		want   string
	}{
		"a pod with a claim": {
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
			"no such claim",
		},
		"a pod without a claim": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", nil)
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: test.volume}}
			state := framework.NewCycleState()
			if _, status := w.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			if got := w.Filter(
				t.Context(),
				state,
				pod,
				newNode(at.NodeName, resources("8", "64Gi")),
			).Message(); got != test.want {
				t.Errorf("Filter says %q, want %q", got, test.want)
			}
		})
	}
}

package feedback

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// onStatus has a function decide what becomes of a write of the proxy's status, and of its answer.
func (s *scene) onStatus(answer func(write func() error) error) {
	s.feedback.options.Client = interceptor.NewClient(s.source, interceptor.Funcs{
		Get: s.get,
		SubResourcePatch: func(
			ctx context.Context, c client.Client, resource string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			return answer(func() error { return c.SubResource(resource).Patch(ctx, o, patch, options...) })
		},
	})
	s.reconciler = s.feedback.Reconciler(s.engaged)
}

func answered(write func() error) error { return write() }

func TestATargetThatIsSetBackDoesNotUndoTheEndOfAProxyThatTheCacheDoesNotShow(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(write func() error) error
		want   error
	}{
		"the write is answered": {answered, nil},
		"the answer of the write fails": {
			func(write func() error) error { return errors.Join(write(), errDown) }, errDown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy(phase(corev1.PodPending)), ours(func(c *v1alpha1.PodChaperon) {
				c.Status.Phase = corev1.PodSucceeded
			}))
			cached := s.now()
			s.cachedProxy = func() *corev1.Pod { return cached }
			s.onStatus(test.answer)
			if _, err := s.reconcile(); !errors.Is(err, test.want) {
				t.Errorf("error %v", err)
			}
			s.onStatus(answered)
			s.cachedChaperons = func() []v1alpha1.PodChaperon { return []v1alpha1.PodChaperon{*ours()} }
			if _, err := s.reconcile(); err != nil {
				t.Error(err)
			}
			if got := s.now().Status.Phase; got != corev1.PodSucceeded {
				t.Errorf("phase %s", got)
			}
		})
	}
}

func TestTheEndOfAProxyThatCouldNotBeWrittenIsWrittenAgain(t *testing.T) {
	s := newScene(t, proxy(phase(corev1.PodPending)), ours(func(c *v1alpha1.PodChaperon) {
		c.Status.Phase = corev1.PodSucceeded
	}))
	s.onStatus(func(func() error) error { return errDown })
	if _, err := s.reconcile(); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
	s.onStatus(answered)
	for range 2 { // The cache shows the end to the second one.
		if _, err := s.reconcile(); err != nil {
			t.Error(err)
		}
	}
	if got := s.now().Status.Phase; got != corev1.PodSucceeded {
		t.Errorf("phase %s", got)
	}
}

// A delegate that is Ready for a moment may end before the cache shows that its proxy is Ready.
func TestAStatusIsNotMixedWithTheOneBefore(t *testing.T) {
	at := func(second int64, ready corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{
			Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Unix(second, 0),
		}
	}
	shown := func(phase corev1.PodPhase, condition corev1.PodCondition) v1alpha1.PodChaperon {
		return *ours(func(c *v1alpha1.PodChaperon) {
			c.Status.Phase, c.Status.Conditions = phase, []corev1.PodCondition{condition}
		})
	}
	begins := shown(corev1.PodPending, at(10, corev1.ConditionFalse))
	runs := shown(corev1.PodRunning, at(20, corev1.ConditionTrue))
	ends := shown(corev1.PodSucceeded, at(30, corev1.ConditionFalse))
	s := newScene(t, proxy(phase(corev1.PodPending)), &begins)
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	stale := s.now()
	for _, step := range []struct {
		shows  v1alpha1.PodChaperon
		cached func() *corev1.Pod
	}{{runs, nil}, {ends, func() *corev1.Pod { return stale }}, {ends, nil}} {
		s.cachedProxy = step.cached
		s.cachedChaperons = func() []v1alpha1.PodChaperon { return []v1alpha1.PodChaperon{step.shows} }
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	got := s.now().Status
	if ready := translate.PodCondition(got.Conditions, corev1.PodReady); got.Phase != corev1.PodSucceeded ||
		ready == nil || ready.Status != corev1.ConditionFalse {
		t.Errorf("it is %s, and Ready is %+v", got.Phase, ready)
	}
}

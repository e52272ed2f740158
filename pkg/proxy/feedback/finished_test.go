package feedback

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
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
	if remembered := len(s.feedback.finished.proxies); remembered > 0 {
		t.Errorf("%d proxies are remembered whose end the cache shows", remembered)
	}
}

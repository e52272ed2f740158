package chaperon

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestADelegateIsNotMadeAgainForAPodChaperonThatIsGone(t *testing.T) {
	// The delegate was not reported yet. The garbage collector ended it, and the cache of PodChaperons lags.
	s := newStage(t, chaperon(corev1.PodStatus{}))
	s.cached = s.chaperon()
	s.mustReconcile()
	for _, o := range []client.Object{delegate(corev1.PodStatus{}), chaperon(corev1.PodStatus{})} {
		if err := s.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	s.mustReconcile()
	s.expectNoDelegate()
	ending := chaperon(corev1.PodStatus{})
	ending.Finalizers = []string{metav1.FinalizerDeleteDependents}
	if err := errors.Join(s.client.Create(t.Context(), ending), s.client.Delete(t.Context(), ending)); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	s.expectNoDelegate()
}

// TestAnOldPodChaperonIsReadBeforeItsDelegateIsCreated has a cache of PodChaperons that lags.
func TestAnOldPodChaperonIsReadBeforeItsDelegateIsCreated(t *testing.T) {
	const old = timeouts.FreshChaperon
	asked := chaperon(corev1.PodStatus{}, grace(""))
	another := chaperon(corev1.PodStatus{}, func(c *v1alpha1.PodChaperon) { c.UID = "another" })
	for name, test := range map[string]struct {
		age     time.Duration
		now     *v1alpha1.PodChaperon // in the API server
		seen    bool                  // The cache has its version.
		creates int
	}{
		"its end was asked for":                {age: old, now: asked},
		"it is gone":                           {age: old},
		"another one has its name":             {age: old, now: another},
		"it is wanted":                         {age: old, now: chaperon(corev1.PodStatus{}), seen: true, creates: 1},
		"a status was written, and not seen":   {age: old, now: chaperon(corev1.PodStatus{})},
		"the API server's clock is ahead":      {age: -old, now: asked},
		"a fresh one needs no further request": {age: old - time.Second, now: asked, creates: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.cached = chaperon(corev1.PodStatus{})
			if test.now != nil {
				now := test.now.DeepCopy()
				if err := s.client.Create(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				if test.seen {
					s.cached.ResourceVersion = now.ResourceVersion
				}
			}
			s.cached.CreationTimestamp = metav1.NewTime(s.reconciler.clock.Now().Add(-test.age))
			s.mustReconcile()
			if len(s.creates) != test.creates {
				t.Errorf("%d requests to create the delegate, want %d", len(s.creates), test.creates)
			}
		})
	}
}

package target

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// started is a Reconciler of the ClusterTarget c2, whose loops run until the test ends.
type started struct {
	reporter
	clients *fake.Clientset
}

func newStarted(t *testing.T, funcs interceptor.Funcs, spec v1alpha1.ClusterTargetSpec) *started {
	t.Helper()
	s := &started{reporter: newReporter(t, v1alpha1.TargetStatus{}, funcs), clients: fake.NewClientset()}
	s.connections.options.Addresses = ownAddress{}
	// No target is dialled without a key.
	s.connections.options.Verifier = func() (gate.Verifier, error) { return nil, errAway }
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := s.wake.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	s.secrets = newSecrets(s.clients, s.wake.Wake)
	target := &v1alpha1.ClusterTarget{}
	if err := s.client.Get(t.Context(), keyC2, target); err != nil {
		t.Fatal(err)
	}
	target.Spec = spec
	if err := s.client.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	return s
}

// reconciles has the target looked at once, and returns its status.
func (s *started) reconciles(t *testing.T) v1alpha1.TargetStatus {
	t.Helper()
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyC2}); err != nil {
		t.Fatal(err)
	}
	target := &v1alpha1.ClusterTarget{}
	if err := s.client.Get(t.Context(), keyC2, target); err != nil {
		t.Fatal(err)
	}
	return target.Status
}

// becomes reconciles the target until a condition has a reason.
func (s *started) becomes(t *testing.T, kind, reason string) {
	t.Helper()
	waittest.Eventually(t, kind+" has the reason "+reason, func() bool {
		for _, condition := range s.reconciles(t).Conditions {
			if condition.Type == kind && condition.Reason == reason {
				return true
			}
		}
		return false
	})
}

// wants returns what the target's loop is to connect, or nil if there is no loop.
func (s *started) wants() *want {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	l, ok := s.connections.loops[keyC2]
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.want
	return &w
}

func secretOfC2(text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "c2"},
		Data:       map[string][]byte{"config": []byte(text)},
	}
}

func TestATargetIsConnectedOnceItsSecretIsKnown(t *testing.T) {
	s := newStarted(t, interceptor.Funcs{}, refer("", ""))
	known := make(chan struct{})
	s.clients.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-known
		return false, nil, nil
	})
	if status := s.reconciles(t); status.Conditions[0].Reason != v1alpha1.ReasonConnecting || s.wants() != nil {
		t.Errorf("before its Secret is known: %+v", status.Conditions)
	}
	close(known)
	s.becomes(t, v1alpha1.ConditionConnected, v1alpha1.ReasonSecretNotFound)
	secrets := s.clients.CoreV1().Secrets("admiralty")
	if _, err := secrets.Create(t.Context(), secretOfC2(kubeconfigOfC2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it is connected by its Secret", func() bool {
		s.reconciles(t)
		return s.wants().config != nil
	})
	target := &v1alpha1.ClusterTarget{}
	if err := s.client.Get(t.Context(), keyC2, target); err != nil {
		t.Fatal(err)
	}
	target.Spec = v1alpha1.ClusterTargetSpec{Self: true}
	if err := s.client.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	s.reconciles(t)
	if w := s.wants(); !w.self || len(s.secrets.watches) > 0 {
		t.Errorf("self: %t, %d Secrets are watched", w.self, len(s.secrets.watches))
	}
}

func TestANewLeaderKnowsWhetherATargetWasConnected(t *testing.T) {
	for status, wasConnected := range map[metav1.ConditionStatus]bool{
		metav1.ConditionTrue: true, metav1.ConditionFalse: false, metav1.ConditionUnknown: false,
	} {
		s := newStarted(t, interceptor.Funcs{}, v1alpha1.ClusterTargetSpec{Self: true})
		target := &v1alpha1.ClusterTarget{}
		if err := s.client.Get(t.Context(), keyC2, target); err != nil {
			t.Fatal(err)
		}
		target.Status.Conditions = []metav1.Condition{connected(status, v1alpha1.ReasonConnected, "")}
		if err := s.client.Status().Update(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		s.reconciles(t)
		if got := s.wants().wasConnected; got != wasConnected {
			t.Errorf("Connected=%s: it was connected: %t", status, got)
		}
	}
}

func TestAWorkingConnectionGoesOnWithoutItsSecret(t *testing.T) {
	s := newStarted(t, interceptor.Funcs{}, refer("", ""))
	secrets := s.clients.CoreV1().Secrets("admiralty")
	if _, err := secrets.Create(t.Context(), secretOfC2(kubeconfigOfC2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it is connected by its Secret", func() bool {
		s.reconciles(t)
		return s.wants() != nil && s.wants().config != nil
	})
	waittest.Eventually(t, "its Secret is watched", func() bool { // Fakes lose what is deleted before.
		return slices.ContainsFunc(s.clients.Actions(), func(a clienttesting.Action) bool {
			return a.Matches("watch", "secrets")
		})
	})
	l := s.connections.loops[keyC2]
	l.mu.Lock()
	l.worked = l.want.fingerprint
	l.findingFor, l.finding = l.want.fingerprint, finding{
		condition: connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, ""),
	}
	l.mu.Unlock()
	if err := secrets.Delete(t.Context(), "c2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, v1alpha1.ConditionSecretUsable, v1alpha1.ReasonSecretNotFound)
	if s.wants().failure != nil {
		t.Error("the connection does not go on")
	}
}

func TestWhenATargetIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		cached, there error // the answers of the cache and the API server
		leaves        bool
		want          error
	}{
		"it is gone": {
			cached: notFoundC2(), there: notFoundC2(), leaves: true,
		},
		"the cache lags":                 {cached: notFoundC2()},
		"the API server does not answer": {cached: notFoundC2(), there: errAway, want: errAway},
		"the cache cannot be asked":      {cached: errAway, want: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			var cached, there error
			answer := func(err *error) interceptor.Funcs {
				return interceptor.Funcs{Get: func(
					ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
					options ...client.GetOption,
				) error {
					if *err != nil {
						return *err
					}
					return c.Get(ctx, k, o, options...)
				}}
			}
			s := newStarted(t, answer(&cached), refer("", ""))
			target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
			s.options.APIReader = fakeOf(t, answer(&there), target)
			s.becomes(t, v1alpha1.ConditionConnected, v1alpha1.ReasonSecretNotFound)
			cached, there = test.cached, test.there
			_, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyC2})
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if left := len(s.secrets.watches) == 0; left != test.leaves {
				t.Errorf("its Secret is watched: %t", !left)
			}
			if test.leaves {
				waittest.Eventually(t, "its loop ends", func() bool { return s.wants() == nil })
			}
		})
	}
}

func notFoundC2() error {
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("clustertargets").GroupResource(), "c2")
}

func TestEachKindOfTargetTakesTurnsByItself(t *testing.T) {
	r := newReporter(t, v1alpha1.TargetStatus{}, interceptor.Funcs{})
	turns := r.options.turns
	if turns.of(keyC2) != turns.clusterTargets || turns.of(types.NamespacedName{Namespace: "a"}) != turns.targets {
		t.Error("a tenant takes the turn of an administrator")
	}
	if turns.clusterTargets == turns.targets {
		t.Error("both take the same turn")
	}
}

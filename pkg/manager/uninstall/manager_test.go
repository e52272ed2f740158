package uninstall

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
)

func TestWhetherAManagerRuns(t *testing.T) {
	for ready, want := range map[int32]bool{0: false, 1: true, 2: true} {
		deployment, _ := ofManager(ready)
		got, err := newCluster(t, 0, deployment).readManager(t.Context())
		if err != nil || !got.exists || got.runs != want || got.selector.String() != "app=manager" {
			t.Errorf("with %d replicas that are ready: %+v, %v", ready, got, err)
		}
	}
	if got, err := newCluster(t, 0).readManager(t.Context()); err != nil || got.exists || got.runs {
		t.Errorf("without a Deployment: %+v, %v", got, err)
	}
	odd, _ := ofManager(1)
	odd.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
	if _, err := newCluster(t, 0, odd).readManager(t.Context()); err == nil {
		t.Error("a selector that cannot be read is no error")
	}
}

func TestTheManagerIsWaitedForUntilItHasStopped(t *testing.T) {
	for name, test := range map[string]struct {
		gone    time.Duration // after which the pod is gone; 0: never
		takes   time.Duration
		goingOn bool
	}{
		"it stops":              {gone: 4500 * time.Millisecond, takes: 5 * time.Second},
		"its node does not say": {takes: stopTimeout, goingOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deployment, pod := ofManager(1)
				c := newCluster(t, time.Hour, deployment, pod)
				began := time.Now()
				if test.gone > 0 {
					time.AfterFunc(test.gone, func() { _ = c.client.Delete(t.Context(), pod) })
				}
				state, err := c.readManager(t.Context())
				if err := errors.Join(err, c.stop(t.Context(), state)); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != test.takes {
					t.Errorf("it took %s, want %s", took, test.takes)
				}
				if got := strings.Contains(c.logged.String(), "going on"); got != test.goingOn {
					t.Errorf("the log is\n%s", c.logged.String())
				}
			})
		})
	}
}

func TestAManagerThatIsGoneIsNotStopped(t *testing.T) {
	c := newCluster(t, time.Hour)
	if err := c.stop(t.Context(), managerState{}); err != nil || len(c.done) > 0 {
		t.Errorf("got the error %v and the writes %q", err, c.done)
	}
}

func TestAFailedLookAtTheManagersPodsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deployment, pod := ofManager(1)
		c := newCluster(t, time.Hour, deployment, pod)
		state, err := c.readManager(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.refused = "list PodList"
		if err := c.stop(t.Context(), state); !errors.Is(err, errRefused) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestTheLeadersLeaseIsDeleted(t *testing.T) {
	for configured, namespace := range map[string]string{"": "admiralty", "leaders": "leaders"} {
		lease := &coordinationv1.Lease{ObjectMeta: named(namespace, "leader")}
		c := newCluster(t, 0, lease)
		c.Configuration.LeaderElection = configv1alpha1.LeaderElection{Namespace: configured, Name: "leader"}
		if err := c.deleteLeaderLease(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); !apierrors.IsNotFound(err) {
			t.Errorf("the Lease in %s: %v", namespace, err)
		}
		if err := c.deleteLeaderLease(t.Context()); err != nil {
			t.Errorf("a Lease that is gone is an error: %v", err)
		}
	}
}

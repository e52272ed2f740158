package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestSwappedSecretsDeleteNoPodUntilTheyAreAccepted(t *testing.T) {
	for name, swap := range map[string]func(func()){
		"while the manager runs": func(swap func()) { swap() },
		"while no manager runs": func(swap func()) {
			stopManager()
			swap()
			startManager()
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := env.Namespace(t, nil, c1, c2, c3)
			a, b := connect(t, namespace, "a", logins[c2]), connect(t, namespace, "b", logins[c3])
			inA, inB := a.run(t, c2), b.run(t, c3)
			swap(func() {
				a.setLogin(t, logins[c3])
				b.setLogin(t, logins[c2])
			})
			a.waitOther(t, c3)
			b.waitOther(t, c2)
			env.WaitForEvent(t, c1, a.ClusterTarget, v1alpha1.ReasonOtherCluster, "another cluster answers")
			inA.expectKept(t)
			inB.expectKept(t)

			a.accept(t, c3)
			a.waitConnected(t)
			env.WaitGone(t, c1, inA.proxy)
			inA.expectUntouched(t)
			env.ExpectEqual(t, "the accepted cluster", id(c3), env.Get(t, c1, a.ClusterTarget).Status.ClusterID)
			b.waitOther(t, c2)
			inB.expectKept(t)
		})
	}
}

func TestSwappedSecretsCanBeSwappedBack(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2, c3)
	a := connect(t, namespace, "a", logins[c2])
	inA := a.run(t, c2)
	a.setLogin(t, logins[c3])
	a.waitOther(t, c3)
	a.setLogin(t, logins[c2])
	a.waitConnected(t)
	inA.expectKept(t)
	inA.report(t, "Succeeded")
}

func TestAPinIsCheckedBeforeTheFirstConnection(t *testing.T) {
	namespace := env.Namespace(t, nil, c1)
	a := createTarget(t, namespace, "a", logins[c2], func(c *v1alpha1.ClusterTarget) { c.Spec.ClusterID = id(c3) })
	a.waitOther(t, c2)
	env.ExpectEqual(t, "the connected cluster", "", a.Status.ClusterID)
	a.accept(t, c2)
	a.waitConnected(t)
	env.ExpectEqual(t, "the connected cluster", id(c2), a.Status.ClusterID)
}

// A rebuilt cluster, or another one under the same address, is noticed by a health check, whatever watches still show.
func TestAClusterThatIsReplacedWhileItIsConnected(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2, c3)
	f := newFront(t, c2)
	a := connect(t, namespace, "a", f.login)
	inA := a.run(t, c2)
	f.leadTo(c3)
	a.waitOther(t, c3)
	inA.expectKept(t)
	f.leadTo(c2)
	a.waitConnected(t)
	inA.expectKept(t)

	f.leadTo(c3)
	a.waitOther(t, c3)
	a.accept(t, c3)
	a.waitConnected(t)
	env.WaitGone(t, c1, inA.proxy)
	inA.expectUntouched(t)
}

// Between two health checks, the watches break and are resumed in another cluster, which has no PodChaperons.
func TestAListFromAnotherClusterDeletesNoPod(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2, c3)
	f := newFront(t, c2)
	a := connect(t, namespace, "a", f.login)
	inA := a.run(t, c2)
	var listed atomic.Bool
	f.route(func(r *http.Request) (*env.Cluster, int) {
		query := r.URL.Query()
		initial := query.Get("sendInitialEvents") == "true"
		switch {
		case !strings.Contains(r.URL.Path, "/podchaperons"):
			if listed.Load() {
				return c3, 0
			}
			return c2, 0 // Health checks see nothing before the list.
		case query.Get("watch") != "" && !initial:
			return nil, http.StatusGone
		default:
			query.Set("resourceVersion", "") // that of another cluster
			r.URL.RawQuery = query.Encode()
			listed.Store(true)
			return c3, 0
		}
	})
	f.server.CloseClientConnections()
	a.waitOther(t, c3)
	if !listed.Load() {
		t.Fatal("the other cluster has answered no list")
	}
	inA.expectKept(t)

	f.leadTo(c2)
	a.waitConnected(t)
	inA.expectKept(t)
	inA.report(t, "Succeeded")
}

func TestSiblingsAreOneCluster(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2)
	a, b := connect(t, namespace, "a", logins[c2]), connect(t, namespace, "b", otherInC2)
	inA, inB := a.run(t, c2), b.run(t, c2)
	was := a.engaged(t)
	a.setLogin(t, otherInC2)
	b.setLogin(t, logins[c2])
	env.Eventually(t, func(context.Context) error {
		if is, ok := registry.ByKey(a.key()); !ok || is == was {
			return errors.New("the target is not engaged with the other login")
		}
		return nil
	})
	a.waitConnected(t)
	b.waitConnected(t)
	inA.expectKept(t)
	inB.expectKept(t)
	inA.report(t, "Succeeded")
	inB.report(t, "Succeeded")
	env.ExpectEqual(t, "cluster IDs", a.engaged(t).ClusterID, b.engaged(t).ClusterID)
}

func TestATargetThatSaysThatItIsTheSourceMustProveIt(t *testing.T) {
	namespace := env.Namespace(t, nil, c1)
	itself := connect(t, namespace, "itself", logins[c1])
	if !itself.engaged(t).Itself {
		t.Error("the source itself is taken for another cluster")
	}
	f := newFront(t, c1) // It tells the source's ID, and has not the key of its API server.
	says := connect(t, namespace, "says", f.login)
	if says.engaged(t).Itself {
		t.Error("a server that says that it is the source is believed")
	}
	says.waitFor(t, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "which is not proved")
	self := &site{ClusterTarget: &v1alpha1.ClusterTarget{}}
	self.Name, self.Spec.Self = namespace+"-self", true
	env.CreateForTest(t, c1, self.ClusterTarget)
	self.waitConnected(t)
	if !self.engaged(t).Itself {
		t.Error("with self: true, the source is taken for another cluster")
	}
}

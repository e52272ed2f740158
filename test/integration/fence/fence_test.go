package fence

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// newTarget returns c2 as a target of c1 for a new namespace.
func newTarget(t *testing.T) *env.Target {
	t.Helper()
	target := env.NewTarget(c2, types.NamespacedName{Namespace: env.Namespace(t, nil, c1, c2), Name: "c2"})
	env.Create(t, c2, &corev1.ServiceAccount{ObjectMeta: env.Meta(target.Key.Namespace, "default")})
	target.Cached, target.Source, target.Verifier = true, c1, keys
	return target
}

func TestADelegateIsStoppedWhenItsSourceIsSilentAndReplacedWhenTheSourceIsBack(t *testing.T) {
	t.Parallel()
	silent, loud := connect(t, "c1"), connect(t, "loud")
	fallSilent, _ := silent.renew(t), loud.renew(t)
	target := newTarget(t)
	target.Engage(t, registry)
	least := timeouts.FenceLeast
	fenced := place(t, target, "fenced", "c1", least)
	later := place(t, target, "later", "c1", timeouts.FenceMost)
	second := place(t, target, "second", "c1", timeouts.FenceLeast*5/2)
	never := place(t, target, "of-an-earlier-version", "c1", 0)
	others := place(t, target, "others", "loud", least)
	unknown := place(t, target, "without-lease", "unknown", least)
	env.WaitForEvent(t, c2, unknown.chaperon, "DelegateNotFenced", "no Lease")

	target.Lose()
	fallSilent()
	remade := place(t, newTarget(t), "remade", "c1", 0)
	remade.lose(t)
	fenced.waitFor(t, v1alpha1.ReasonDelegateFenced)
	if after := fast.Since(silent.lastHeard(t)); after < least {
		t.Errorf("it is fenced %s after the source was heard of", after)
	}
	ending := env.WaitFor(t, c2, fenced.delegate, func(pod *corev1.Pod) error {
		if pod.DeletionTimestamp == nil {
			return fmt.Errorf("the delegate runs")
		}
		return nil
	})
	if own, grace := *ending.Spec.TerminationGracePeriodSeconds, *ending.DeletionGracePeriodSeconds; own != grace {
		t.Errorf("it is stopped within %d s, and its grace period is %d s", grace, own)
	}
	env.WaitForEvent(t, c2, fenced.chaperon, "DelegateFenced", "had not heard of its source for 1m0s")
	fenced.confirm(t)

	// When a lost delegate is made again that nobody fences, a fenced one would have been, too.
	second.waitFor(t, v1alpha1.ReasonDelegateFenced)
	for _, p := range []placed{fenced, remade} {
		env.Change(t, c2, p.chaperon, func(c *v1alpha1.PodChaperon) { c.Labels["touched"] = "" })
	}
	remade.waitFor(t, "")
	fenced.waitFor(t, v1alpha1.ReasonDelegateFenced)
	if env.Exists(t, c2, &corev1.Pod{ObjectMeta: env.Meta(fenced.delegate.Namespace, fenced.delegate.Name)}) {
		t.Error("the fenced delegate was made again")
	}
	later.expectRunning(t, "a delegate with a longer time")
	never.expectRunning(t, "a delegate without a time")
	others.expectRunning(t, "the delegate of a source that renews")
	unknown.expectRunning(t, "the delegate of a source without a Lease")

	silent.renew(t)
	target.Engage(t, registry)
	env.WaitForEvent(t, c1, fenced.proxy, "DelegateLost", "which had not heard of its source for 1m0s")
	env.WaitGone(t, c2, fenced.chaperon)
	env.WaitGone(t, c1, fenced.proxy)
	later.expectRunning(t, "a delegate with a longer time, when the source is back")
	if !env.Exists(t, c1, later.proxy) {
		t.Error("the source deleted a proxy whose delegate runs")
	}
}

// TestASourceIsHeardOfAgain also renews while the target's manager measures its silence.
func TestASourceIsHeardOfAgain(t *testing.T) {
	t.Parallel()
	o := connect(t, "back")
	fallSilent := o.renew(t)
	target := newTarget(t)
	p := place(t, target, "web", "back", timeouts.FenceLeast)
	other := connect(t, "not-back")
	silence := other.renew(t)
	marker := place(t, target, "marker", "not-back", timeouts.FenceLeast)
	fallSilent()
	<-fast.After(timeouts.FenceLeast / 6)
	o.renew(t) // It waits a quarter of the time until it has the Lease.
	silence()
	marker.waitFor(t, v1alpha1.ReasonDelegateFenced)
	p.expectRunning(t, "a source that was silent for less")
}

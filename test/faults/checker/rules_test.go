package checker

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// history is what happens in a test, and the rule that it breaks, if any.
type history struct {
	happens func(h *History, c *clock)
	want    Rule
}

func check(t *testing.T, histories map[string]history) {
	t.Helper()
	for name, test := range histories {
		t.Run(name, func(t *testing.T) {
			c := &clock{at: time.Unix(1_000_000, 0)}
			h := NewHistory(c.now)
			test.happens(h, c)
			var got Rule
			if v := h.Violations(); len(v) > 0 {
				got = v[0].Rule
			}
			if got != test.want {
				t.Errorf("got %q, want %q: %v", got, test.want, h.Violations())
			}
		})
	}
}

// ready makes a pod Ready since some time.
func ready(since time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
		})
	}
}

func evicted(reason string, at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason,
			LastTransitionTime: metav1.NewTime(at),
		})
	}
}

// patient tolerates the loss of its node for 10 s.
func patient(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, TolerationSeconds: new(int64(10))}}
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

// endsAt is being deleted, and has so many seconds until that time.
func endsAt(at time.Time, grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: at}, &grace
	}
}

// fencedPod is stopped by its target after a silence of 60 s.
func fencedPod(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.AnnotationFencedAfter: "60"}
	p.Spec.TerminationGracePeriodSeconds = new(int64(5))
}

func TestReadinessIsNotInvented(t *testing.T) {
	proxy := func(h *History, change ...func(*corev1.Pod)) {
		h.Proxy(pod("p", append(change, on("admiralty-c2"))...))
	}
	check(t, map[string]history{
		"the proxy is Ready after its delegate": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d", ready(c.at)))
			proxy(h, ready(c.at))
			h.Ends()
		}},
		"the proxy is Ready, and its delegate never": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			h.Ends()
		}, want: Readiness},
		"the proxy is Ready three seconds before its delegate": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			c.at = c.at.Add(3 * time.Second)
			h.Delegate("c2", "p", pod("d", ready(c.at)))
		}, want: Readiness},
		"the watch of the target is late": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			since := c.at
			c.at = c.at.Add(3 * time.Second)
			h.Delegate("c2", "p", pod("d", ready(since)))
			h.Ends()
		}},
		"a delegate that was Ready until now": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d", ready(c.at)))
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			c.at = c.at.Add(3 * time.Second)
			h.Delegate("c2", "p", pod("d", ready(c.at)))
			h.Ends()
		}},
		"a delegate that was Ready long ago": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d", ready(c.at)))
			h.Delegate("c2", "p", pod("d"))
			c.at = c.at.Add(lagsFor + time.Second)
			proxy(h, ready(c.at))
			h.Ends()
		}, want: Readiness},
		"the proxy of a delegate that has finished stays Ready": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d", ready(c.at)))
			proxy(h, ready(c.at))
			h.Delegate("c2", "p", pod("d", ended(corev1.PodSucceeded, 0)))
			proxy(h, ready(c.at), ended(corev1.PodSucceeded, 0))
			c.at = c.at.Add(restLags)
			h.Ends()
		}, want: Readiness},
		"a delegate that was Ready until just before the rest": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d", ready(c.at)))
			proxy(h, ready(c.at))
			h.Delegate("c2", "p", pod("d"))
			h.Ends()
		}},
		"a delegate in another target is Ready": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d2"))
			h.Delegate("c1", "p", pod("d1", ready(c.at)))
			proxy(h, ready(c.at))
			h.Ends()
		}, want: Readiness},
		"the proxy shows it no more": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			proxy(h)
			h.Ends()
		}},
		"another cluster is away": {happens: func(h *History, c *clock) {
			h.Away("c1", true)
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			c.at = c.at.Add(3 * time.Second)
			h.Delegate("c2", "p", pod("d", ready(c.at)))
		}, want: Readiness},
		"the checker cannot see its cluster": {happens: func(h *History, c *clock) {
			h.Blurs("c2", true)
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			c.at = c.at.Add(3 * time.Second)
			h.Delegate("c2", "p", pod("d", ready(c.at)))
		}},
		"its cluster is away, so that the checker may see it late": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			h.Delegate("c2", "p", pod("d"))
			proxy(h, ready(c.at))
			c.at = c.at.Add(3 * time.Second)
			h.Delegate("c2", "p", pod("d", ready(c.at)))
		}},
	})
}

func TestAPodGoesOnlyWhenItsDelegateHasEnded(t *testing.T) {
	runs := map[types.UID]bool{"d": true}
	goes := func(h *History, change ...func(*corev1.Pod)) {
		p := pod("p", append(change, on("admiralty-c2"), owned("ReplicaSet"))...)
		h.Proxy(p)
		h.Delegate("c2", "p", pod("d"))
		deleting(p)
		h.Proxy(p)
		h.ProxyGone(p)
	}
	// unseen goes without having been seen to be deleted, some time after it was bound.
	unseen := func(h *History, c *clock, after time.Duration) {
		h.Proxy(pod("p", owned("ReplicaSet")))
		h.Delegate("c2", "p", pod("d"))
		p := pod("p", on("admiralty-c2"), owned("ReplicaSet"))
		p.Labels = map[string]string{"app": "web"}
		h.Proxy(p)
		c.at = c.at.Add(after)
		h.Proxy(p)
		h.ProxyGone(p)
		h.Running(runs)
		h.Running(runs)
	}
	// shown goes just after it was bound, and was seen to be deleted with a grace period in seconds.
	shown := func(h *History, c *clock, grace int64) {
		h.Proxy(pod("p", owned("ReplicaSet")))
		h.Delegate("c2", "p", pod("d"))
		p := pod("p", on("admiralty-c2"), owned("ReplicaSet"))
		h.Proxy(p)
		endsAt(c.at, grace)(p)
		h.Proxy(p)
		endsAt(c.at, 0)(p)
		h.Proxy(p)
		h.ProxyGone(p)
		h.Running(runs)
		h.Running(runs)
	}
	check(t, map[string]history{
		"the delegate runs after its proxy": {happens: func(h *History, _ *clock) {
			goes(h)
			h.Running(runs)
			h.Delegate("c2", "p", pod("d"))
			h.Running(runs)
		}, want: EndsFirst},
		"a look that may have begun before the proxy went": {happens: func(h *History, _ *clock) {
			goes(h)
			h.Running(runs)
			h.Running(nil)
		}},
		"somebody deleted the proxy by force": {happens: func(h *History, _ *clock) {
			h.Allow("p", DeletedByForce)
			h.Allow("p", Deleted)
			goes(h)
			h.Running(runs)
			h.Running(runs)
		}},
		"somebody deleted the proxy": {happens: func(h *History, _ *clock) {
			h.Allow("p", Deleted)
			goes(h)
			h.Running(runs)
			h.Running(runs)
		}, want: EndsFirst},
		"it was bound, and somebody deleted it at once": {happens: func(h *History, c *clock) {
			h.Allow("p", Deleted)
			unseen(h, c, bindingRace-time.Second)
		}},
		"it was bound, and somebody deleted it at once, which the watch shows": {happens: func(h *History, c *clock) {
			h.Allow("p", Deleted)
			shown(h, c, 0)
		}},
		"it was bound, and goes at once, which the watch shows, and nobody asked for it": {
			happens: func(h *History, c *clock) { shown(h, c, 0) }, want: EndsFirst,
		},
		"it was bound, and somebody deleted it with a grace period": {happens: func(h *History, c *clock) {
			h.Allow("p", Deleted)
			shown(h, c, 1)
		}, want: EndsFirst},
		"it was bound, and its Deployment is scaled": {happens: func(h *History, c *clock) {
			h.Changes("web")
			unseen(h, c, bindingRace-time.Second)
		}},
		"it was bound, and its node is drained": {happens: func(h *History, c *clock) {
			h.Drains("c2", true)
			unseen(h, c, bindingRace-time.Second)
		}},
		"it was bound, and goes at once, and nobody asked for it": {happens: func(h *History, c *clock) {
			unseen(h, c, bindingRace-time.Second)
		}, want: EndsFirst},
		"it was bound, and somebody deleted its delegate": {happens: func(h *History, c *clock) {
			h.Allow("p", DelegateDeleted)
			unseen(h, c, bindingRace-time.Second)
		}, want: EndsFirst},
		"it was bound, and another Deployment was scaled before all was at rest": {happens: func(h *History, c *clock) {
			h.Changes("web")
			h.Ends()
			h.Changes("db")
			unseen(h, c, bindingRace-time.Second)
		}, want: EndsFirst},
		"it was bound before, and goes at once": {happens: func(h *History, c *clock) {
			h.Allow("p", Deleted)
			unseen(h, c, bindingRace)
		}, want: EndsFirst},
		"its node is gone": {happens: func(h *History, c *clock) {
			goes(h, evicted(evictedByCollector, c.at))
			h.Running(runs)
			h.Running(runs)
		}, want: EndsFirst},
		"its node is gone, and the source was silent": {happens: func(h *History, c *clock) {
			h.Silent(true)
			goes(h, evicted(evictedByCollector, c.at))
			h.Running(runs)
			h.Running(runs)
		}},
		"somebody deleted the delegate": {happens: func(h *History, _ *clock) {
			h.Allow("p", DelegateDeleted)
			goes(h)
			h.Running(runs)
			h.Running(runs)
		}, want: EndsFirst},
		"somebody deleted the delegate by force": {happens: func(h *History, _ *clock) {
			h.Allow("p", DelegateDeleted)
			h.Allow("p", DelegateDeletedByForce)
			h.Allow("p", Deleted)
			goes(h)
			h.Running(runs)
			h.Running(runs)
		}},
		"the proxy was bound elsewhere": {happens: func(h *History, _ *clock) {
			goes(h)
			h.Delegate("c1", "p", pod("e"))
			h.Running(map[types.UID]bool{"e": true})
			h.Running(map[types.UID]bool{"e": true})
		}},
		"a cluster was set back": {happens: func(h *History, c *clock) {
			h.SetBack("c2", false, c.at)
			goes(h)
			h.Running(runs)
			h.Running(runs)
		}},
	})
}

func TestALostTargetHasTheTimeToFence(t *testing.T) {
	fenced := func(h *History) {
		h.Proxy(pod("p", on("admiralty-c2"), owned("StatefulSet"), fencedPod))
		h.Fenced("event", "p")
	}
	check(t, map[string]history{
		"at once": {happens: func(h *History, c *clock) { fenced(h) }, want: EndsFirst},
		"after 75 s": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(75 * time.Second)
			fenced(h)
		}, want: EndsFirst},
		"after a minute more than the fence, and the grace period": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(125 * time.Second)
			fenced(h)
		}},
		"in time, and a new watch shows the event again": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(125 * time.Second)
			fenced(h)
			h.Away("c2", false)
			c.at = c.at.Add(time.Hour)
			h.Fenced("event", "p")
		}},
		"in time, and at once the next time": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(125 * time.Second)
			fenced(h)
			h.Away("c2", false)
			c.at = c.at.Add(time.Hour)
			h.Fenced("another event", "p")
		}, want: EndsFirst},
		"another cluster was away": {happens: func(h *History, c *clock) {
			h.Away("c1", true)
			c.at = c.at.Add(125 * time.Second)
			fenced(h)
		}, want: EndsFirst},
		"two outages in a row": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			h.Away("c2", true)
			c.at = c.at.Add(70 * time.Second)
			h.Away("c2", false)
			h.Away("c2", false)
			c.at = c.at.Add(time.Second)
			h.Away("c2", true)
			c.at = c.at.Add(60 * time.Second)
			fenced(h)
		}},
		"a short outage long after a long one": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(300 * time.Second)
			h.Away("c2", false)
			c.at = c.at.Add(excusedFor + time.Second)
			h.Away("c2", true)
			c.at = c.at.Add(50 * time.Second)
			fenced(h)
		}, want: EndsFirst},
	})
}

func TestABrokenPromiseComesWithTheTraceOfItsPod(t *testing.T) {
	c := &clock{at: time.Unix(1_000_000, 0)}
	h := NewHistory(c.now)
	h.Proxy(pod("p", on("admiralty-c2")))
	h.Proxy(pod("other", on("admiralty-c2")))
	h.Delegate("c2", "p", pod("d"))
	h.Delegate("c2", "p", pod("d")) // no news
	chaperon := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "d", Labels: map[string]string{v1alpha1.LabelParentUID: "p"},
	}}
	h.ofChaperons("c2").OnAdd(chaperon, true)
	h.Allow("p", Deleted)
	h.Proxy(pod("p", on("admiralty-c2"), deleting))
	h.ProxyGone(pod("p"))
	for range looksBeforeEnd {
		h.Running(map[types.UID]bool{"d": true})
	}
	violations := h.Violations()
	if len(violations) != 1 || len(violations[0].Trace) != 6 {
		t.Fatalf("got %v", violations)
	}
	text := violations[0].String()
	for _, want := range []string{
		"proxy db-0: ", "delegate db-0 in c2: ", "PodChaperon d in c2: ", string(Deleted), "gone",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace lacks %q:\n%s", want, text)
		}
	}
}

func TestABrokenPromiseOfAControllerComesWithTheTracesOfItsPods(t *testing.T) {
	h := NewHistory((&clock{}).now)
	h.Proxy(pod("p", on("admiralty-c2")))
	h.ViolateOf("db", ExitCodes, "Job db failed")
	h.ViolateOf("d", ExitCodes, "Job d failed")
	if got := h.Violations(); len(got) != 2 || len(got[0].Trace) != 1 || len(got[1].Trace) != 0 {
		t.Errorf("got %v", got)
	}
}

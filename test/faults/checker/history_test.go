package checker

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(uid types.UID, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0", UID: uid}}
	p.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func ended(phase corev1.PodPhase, code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "whoami", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		}}
	}
}

// exits has the pod's program end with exit code 3.
func exits(p *corev1.Pod) {
	p.Spec.Containers = []corev1.Container{{Name: "whoami", Args: []string{"sleep", "5s", "--exit=3"}}}
}

// made is when an API server made a pod.
func made(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at.Truncate(time.Second)) }
}

func owned(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: new(true)}}
	}
}

// clock is a clock that the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestWhetherTheHistoryLags(t *testing.T) {
	version := func(v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.ResourceVersion = v } }
	h := NewHistory(time.Now)
	h.Proxy(pod("p", version("1")))
	h.Delegate("c1", "p", pod("d", version("2")))
	for name, test := range map[string]struct {
		exist []*corev1.Pod
		lags  bool
	}{
		"all as it is":           {exist: []*corev1.Pod{pod("p", version("1")), pod("d", version("2"))}},
		"a proxy has changed":    {exist: []*corev1.Pod{pod("p", version("3")), pod("d", version("2"))}, lags: true},
		"a delegate has changed": {exist: []*corev1.Pod{pod("p", version("1")), pod("d", version("3"))}, lags: true},
		"a proxy is gone":        {exist: []*corev1.Pod{pod("d", version("2"))}, lags: true},
		"a delegate is gone":     {exist: []*corev1.Pod{pod("p", version("1"))}, lags: true},
		"a pod that is not yet known": {
			exist: []*corev1.Pod{pod("p", version("1")), pod("d", version("2")), pod("q", version("4"))}, lags: true,
		},
	} {
		exist := map[types.UID]*corev1.Pod{}
		for _, p := range test.exist {
			exist[p.UID] = p
		}
		if got := h.Lags(exist); (got != "") != test.lags {
			t.Errorf("%s: lags by %q, want %t", name, got, test.lags)
		}
	}
	h.ProxyGone(pod("p"))
	h.DelegateGone("d")
	if got := h.Lags(nil); got != "" {
		t.Errorf("after all is gone, it lags by %q", got)
	}
}

func TestAnotherPodOfTheNameAfterAGapOfTheWatch(t *testing.T) {
	h := NewHistory(time.Now)
	events := h.handler("c1", true)
	events.OnAdd(pod("p", owned("StatefulSet")), false)
	events.OnUpdate(pod("p", owned("StatefulSet")), pod("q", owned("StatefulSet")))
	if got := h.Lags(map[types.UID]*corev1.Pod{"q": pod("q")}); got != "" {
		t.Errorf("it still knows %s, which was replaced", got)
	}
}

func TestWhatIsAViolation(t *testing.T) {
	running := func(uids ...types.UID) map[types.UID]bool {
		set := map[types.UID]bool{}
		for _, uid := range uids {
			set[uid] = true
		}
		return set
	}
	both := func(h *History) {
		h.Delegate("c1", "p", pod("d1"))
		h.Delegate("c2", "p", pod("d2"))
	}
	for name, test := range map[string]struct {
		happens func(h *History, c *clock)
		want    Rule
	}{
		"one delegate": {happens: func(h *History, _ *clock) {
			both(h)
			h.Running(running("d1"))
		}},
		"two delegates of a proxy": {happens: func(h *History, _ *clock) {
			both(h)
			h.Running(running("d1", "d2"))
		}, want: OnePerProxy},
		"two delegates of a proxy that was bound to the lost cluster": {happens: func(h *History, _ *clock) {
			both(h)
			h.Proxy(pod("p", on("admiralty-c2")))
			h.Away("c2", true)
			h.Running(running("d1", "d2"))
		}, want: OnePerProxy},
		"two pods of an ordinal": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", owned("StatefulSet")))
			h.Proxy(pod("q", owned("StatefulSet")))
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "q", pod("d2"))
			h.Running(running("d1", "d2"))
		}, want: OnePerOrdinal},
		"two pods of an ordinal, one of them in a cluster that was set back": {happens: func(h *History, c *clock) {
			h.SetBack("c2", false, c.at)
			h.Proxy(pod("p", owned("StatefulSet")))
			h.Proxy(pod("q", owned("StatefulSet")))
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "q", pod("d2"))
			h.Running(running("d1", "d2"))
			h.Back("c2")
			c.at = c.at.Add(excusedFor)
			h.Running(running("d1", "d2"))
		}},
		"the same, long after somebody accepted it": {happens: func(h *History, c *clock) {
			h.SetBack("c2", false, c.at)
			h.Proxy(pod("p", owned("StatefulSet")))
			h.Proxy(pod("q", owned("StatefulSet")))
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "q", pod("d2"))
			h.Back("c2")
			c.at = c.at.Add(excusedFor + time.Second)
			h.Running(running("d1", "d2"))
		}, want: OnePerOrdinal},
		"a doubled pod an hour after a set-back, when its cluster is away again": {happens: func(h *History, c *clock) {
			h.SetBack("c2", false, c.at)
			both(h)
			h.Proxy(pod("p", on("admiralty-c2")))
			h.Back("c2")
			h.Ends()
			c.at = c.at.Add(time.Hour)
			h.Away("c2", true)
			h.Running(running("d1", "d2"))
		}, want: OnePerProxy},
		"two pods of an ordinal an hour after a set-back": {happens: func(h *History, c *clock) {
			h.SetBack("c2", false, c.at)
			h.Back("c2")
			h.Ends()
			c.at = c.at.Add(time.Hour)
			h.Away("c2", true)
			h.Proxy(pod("p", owned("StatefulSet")))
			h.Proxy(pod("q", owned("StatefulSet")))
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "q", pod("d2"))
			h.Running(running("d1", "d2"))
		}, want: OnePerOrdinal},
		"a pod that lived through a set-back goes an hour later": {happens: func(h *History, c *clock) {
			h.Proxy(pod("p"))
			h.SetBack("c2", false, c.at)
			h.Back("c2")
			h.Ends()
			c.at = c.at.Add(time.Hour)
			h.ProxyGone(pod("p"))
		}, want: NoneLost},
		"a pod that must get through the setting back of a cluster": {happens: func(h *History, c *clock) {
			is := pod("p", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "kept"} })
			h.Proxy(is)
			h.SetBack("c1", true, c.at)
			h.ProxyGone(is)
		}, want: NoneLost},
		"two pods of a Deployment of one name": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", owned("ReplicaSet")))
			h.Proxy(pod("q", owned("ReplicaSet")))
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "q", pod("d2"))
			h.Running(running("d1", "d2"))
		}},
		"a pod goes by itself": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p"))
			h.ProxyGone(pod("p"))
		}, want: NoneLost},
		"a pod of a Job goes by itself": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", owned("Job")))
			h.ProxyGone(pod("p"))
		}, want: NoneLost},
		"a pod goes that somebody deleted": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p"))
			h.Allow("p", Deleted)
			h.ProxyGone(pod("p"))
		}},
		"a pod that has finished runs again": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", ended(corev1.PodSucceeded, 0)))
			h.Proxy(pod("p"))
		}, want: Terminal},
		"an exit code changes": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", ended(corev1.PodFailed, 3)))
			h.Proxy(pod("p", ended(corev1.PodFailed, 137)))
		}, want: Terminal},
		"the proxy has another exit code": {happens: func(h *History, _ *clock) {
			h.Delegate("c1", "p", pod("d", ended(corev1.PodFailed, 3)))
			h.Proxy(pod("p", on("admiralty-c1"), ended(corev1.PodFailed, 137)))
		}, want: ExitCodes},
		"the proxy has another exit code than its program, and so has its delegate": {happens: func(
			h *History, _ *clock,
		) {
			h.Delegate("c1", "p", pod("d", ended(corev1.PodFailed, 137)))
			h.Proxy(pod("p", on("admiralty-c1"), exits, ended(corev1.PodFailed, 137)))
		}, want: ExitCodes},
		"the same, and the target evicted the delegate": {happens: func(h *History, c *clock) {
			h.Delegate("c1", "p", pod("d", evicted(evictedByTaint, c.at), ended(corev1.PodFailed, 137)))
			h.Proxy(pod("p", on("admiralty-c1"), exits, ended(corev1.PodFailed, 137)))
		}},
		"the same, and somebody deleted the delegate": {happens: func(h *History, _ *clock) {
			h.Allow("p", DelegateDeleted)
			h.Delegate("c1", "p", pod("d", ended(corev1.PodFailed, 137)))
			h.Proxy(pod("p", on("admiralty-c1"), exits, ended(corev1.PodFailed, 137)))
		}},
		"the proxy has its program's exit code": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", on("admiralty-c1"), exits, ended(corev1.PodFailed, 3)))
		}},
		"the proxy has the delegate's exit code": {happens: func(h *History, _ *clock) {
			h.Delegate("c1", "p", pod("d", ended(corev1.PodFailed, 3)))
			h.Proxy(pod("p", on("admiralty-c1"), ended(corev1.PodFailed, 3)))
			h.Ends()
		}},
		"a delegate of before the proxy was bound elsewhere ends": {happens: func(h *History, _ *clock) {
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "p", pod("d2", ended(corev1.PodSucceeded, 0)))
			h.Proxy(pod("p", on("admiralty-c1")))
			h.Ends()
		}},
		"the proxy does not hear of the end": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", on("admiralty-c1")))
			h.Delegate("c1", "p", pod("d", ended(corev1.PodFailed, 3)))
			h.Ends()
		}, want: ExitCodes},
		"the proxy finishes without a delegate": {happens: func(h *History, _ *clock) {
			h.Delegate("c1", "p", pod("d"))
			h.Proxy(pod("p", ended(corev1.PodFailed, 0)))
			h.Ends()
		}, want: ExitCodes},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clock{at: time.Unix(1, 0)}
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

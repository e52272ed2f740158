package checker

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Steady is an annotation of pods whose controller nobody scales to less, or rolls out. Its value says who promises it.
const Steady = "example.com/steady"

// History is what the checker knows. Its methods may be called by several goroutines.
type History struct {
	now func() time.Time

	mu         sync.Mutex // guards the fields below
	proxies    map[types.UID]*proxy
	delegates  map[types.UID]*delegate
	allowed    map[types.UID]allowance
	forgets    map[string]setBack      // clusters that were set back since the last rest
	away       map[string]*outage      // by cluster
	refuses    map[string]*outage      // times in which a cluster refuses the source
	blurs      map[string]*outage      // times in which the checker cannot see a cluster
	drains     map[string]*outage      // drains of the cluster's virtual node
	changed    map[string]bool         // labels app of pods whose controllers were changed since the last rest
	silent     outage                  // of the source, in any target
	blind      outage                  // times in which the source's Kubernetes knows nothing of its own node
	invented   map[types.UID]time.Time // since when proxies show that they are Ready whose delegates are not
	looks      int                     // at the processes of the machine, so far
	unnamed    map[types.UID]intervals // when pods ran that are no known delegates, since the last rest
	fenced     map[types.UID]bool      // events that say that a delegate was fenced
	reported   map[string]bool
	traces     map[types.UID]*trace // by proxy
	violations []Violation
}

type proxy struct {
	name, node string
	made       time.Time // as its API server says, in whole seconds
	unseen     bool      // Its cluster was set back, and has not shown it since.
	app        string    // the label
	version    string    // the resourceVersion
	ordinal    bool      // of a StatefulSet
	lasts      bool      // Nobody scales its controller to less than this pod, or rolls it out.
	ends       string    // the exit codes with which it is to finish, if nobody deletes it
	kept       bool      // must get through everything
	controlled bool      // by something that may delete it
	deleting   bool
	gone       bool      // A proxy that is gone may have a delegate that runs.
	bound      time.Time // when it was first seen on its node
	raced      bool      // A user or Kubernetes deleted it in the moment when it was bound.
	phase      corev1.PodPhase
	codes      string
	readiness
	// disrupted is why Kubernetes evicts it, and patience how long it tolerates the loss of its node.
	disrupted   string
	disruptedAt time.Time
	patience    time.Duration
	// fence is the silence after which its target stops its delegate, or 0.
	fence, grace time.Duration
}

// on reports whether the proxy is bound to the virtual node of a cluster. A delegate elsewhere was withdrawn before the
// proxy was bound, and its end means nothing.
func (p *proxy) on(cluster string) bool { return p.node == "admiralty-"+cluster }

// cluster returns the target of the proxy's virtual node.
func (p *proxy) cluster() string { return strings.TrimPrefix(p.node, "admiralty-") }

type delegate struct {
	cluster, name string
	parent        types.UID
	version       string
	phase         corev1.PodPhase
	codes         string
	gone          bool
	forgotten     bool      // Its cluster was set back, and has not shown it since.
	made          time.Time // as its API server says, in whole seconds
	evicted       bool      // Its target evicts it.
	ends          time.Time // when somebody asked for its end, as its API server says, in whole seconds
	readiness
	ran   intervals
	after int // how many looks found that it runs, after its proxy had gone
}

// NewHistory returns an empty history. The function now returns the current time.
func NewHistory(now func() time.Time) *History {
	return &History{
		now:     now,
		proxies: map[types.UID]*proxy{}, delegates: map[types.UID]*delegate{},
		allowed: map[types.UID]allowance{}, reported: map[string]bool{}, traces: map[types.UID]*trace{},
		forgets: map[string]setBack{}, away: map[string]*outage{}, refuses: map[string]*outage{},
		blurs: map[string]*outage{}, drains: map[string]*outage{}, changed: map[string]bool{},
		fenced: map[types.UID]bool{}, unnamed: map[types.UID]intervals{}, invented: map[types.UID]time.Time{},
	}
}

// Proxy notes the state of a pod of the source.
func (h *History) Proxy(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.proxies[pod.UID]
	if was == nil {
		was = &proxy{}
	}
	is := &proxy{
		name: pod.Name, node: pod.Spec.NodeName, made: pod.CreationTimestamp.Time,
		version: pod.ResourceVersion, deleting: pod.DeletionTimestamp != nil,
		phase: pod.Status.Phase, codes: codes(pod), app: pod.Labels["app"], kept: pod.Labels["app"] == "kept",
		ends: endsWith(pod), lasts: pod.Annotations[Steady] != "",
		disrupted: was.disrupted, disruptedAt: was.disruptedAt, patience: patienceOf(pod), fence: fenceOf(pod),
		grace:     time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)) * time.Second,
		readiness: readinessOf(pod, was.readiness, h.now()),
	}
	if why, at := disruption(pod); why != "" {
		is.disrupted, is.disruptedAt = why, at
	}
	is.ownedBy(metav1.GetControllerOf(pod))
	if is.bound = was.bound; was.node == "" && is.node != "" {
		is.bound = h.now()
	}
	if is.raced = was.raced; is.deleting && !was.deleting {
		is.raced = ptr.Deref(pod.DeletionGracePeriodSeconds, 1) == 0 && h.races(pod.UID, is)
	}
	h.proxies[pod.UID] = is
	h.notePod(pod.UID, "proxy "+pod.Name, pod)
	if Finished(was.phase) && (is.phase != was.phase || is.codes != was.codes) {
		h.violateOf(pod.UID, Terminal, "proxy %s was %s %s, and is %s %s",
			is.name, was.phase, was.codes, is.phase, is.codes)
	}
	if is.deleting && !was.deleting {
		h.goes(pod.UID, is)
	}
	h.showsReady(pod.UID, is, was.readiness)
	h.compareEnds(pod.UID)
}

// ownedBy notes the owner of a proxy, which may be nil.
func (p *proxy) ownedBy(owner *metav1.OwnerReference) {
	if owner == nil {
		return
	}
	p.controlled, p.ordinal = owner.Kind != "Job", owner.Kind == "StatefulSet"
	p.lasts = p.lasts || p.ordinal && strings.HasSuffix(p.name, "-0")
}

// ProxyGone notes that a pod of the source does not exist any more.
func (h *History) ProxyGone(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if is := h.proxies[pod.UID]; is != nil {
		is.gone = true
		is.raced = is.raced || !is.deleting && h.races(pod.UID, is)
		h.note(pod.UID, "proxy "+pod.Name, "gone")
		h.goes(pod.UID, is)
	}
}

// Delegate notes the state of a delegate.
func (h *History) Delegate(cluster string, parent types.UID, pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.delegates[pod.UID]
	if was == nil {
		was = &delegate{}
	}
	is := &delegate{
		cluster: cluster, name: pod.Name, parent: parent, version: pod.ResourceVersion,
		phase: pod.Status.Phase, codes: codes(pod), after: was.after, ran: was.ran,
		made:      pod.CreationTimestamp.Time,
		evicted:   was.evicted,
		ends:      endOf(pod),
		readiness: readinessOf(pod, was.readiness, h.now()),
	}
	if why, _ := disruption(pod); why == evictedByTaint {
		is.evicted = true
	}
	h.delegates[pod.UID] = is
	h.named(pod.UID, is)
	h.notePod(parent, "delegate "+pod.Name+" in "+cluster, pod)
	h.isReady(is)
	h.compareEnds(parent)
}

// DelegateGone notes that a delegate does not exist any more.
func (h *History) DelegateGone(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.delegates[uid]; d != nil {
		d.gone = true
		h.note(d.parent, "delegate "+d.name+" in "+d.cluster, "gone")
	}
}

// Leftovers returns the pods that run and are no delegates, or not any more, or that were forgotten.
func (h *History) Leftovers(running map[types.UID][]int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var left []string
	for uid := range running {
		switch d := h.delegates[uid]; {
		case d == nil:
			left = append(left, fmt.Sprintf("pod %s, which no API server has shown", uid))
		case d.gone || d.forgotten:
			left = append(left, d.name+" in "+d.cluster)
		}
	}
	return left
}

// compareEnds compares the end of a proxy with that of its delegate. A pod that somebody deleted may end in any way.
func (h *History) compareEnds(uid types.UID) {
	p := h.proxies[uid]
	if p == nil || p.deleting || h.isAllowed(uid) || !Finished(p.phase) {
		return
	}
	for _, d := range h.delegates {
		compares := d.parent == uid && !d.forgotten && p.on(d.cluster) && Finished(d.phase)
		if compares && (d.phase != p.phase || d.codes != p.codes) {
			h.violateOf(uid, ExitCodes, "proxy %s is %s %s, its delegate %s %s",
				p.name, p.phase, p.codes, d.phase, d.codes)
		}
	}
	if p.ends != "" && p.codes != p.ends && !h.delegateEvicted(uid) {
		h.violateOf(uid, ExitCodes, "proxy %s is %s %s, and its program ends with %s", p.name, p.phase, p.codes, p.ends)
	}
}

// Lags returns the name of a pod of which the history knows another state than that of the pods given, which are all
// that exist. After an outage, a watch of a cluster may take a minute to begin anew.
func (h *History) Lags(exist map[types.UID]*corev1.Pod) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[types.UID]string{}
	for uid, p := range h.proxies {
		if p.gone || p.unseen {
			continue
		}
		if known[uid] = p.version; exist[uid] == nil {
			return p.name
		}
	}
	for uid, d := range h.delegates {
		if d.gone || d.forgotten {
			continue
		}
		if known[uid] = d.version; exist[uid] == nil {
			return d.name
		}
	}
	for uid, pod := range exist {
		if known[uid] != pod.ResourceVersion {
			return pod.Name
		}
	}
	return ""
}

// Ends checks, at a time of rest, that each proxy has finished exactly if its delegate has. Nothing of the past runs
// any more then. So what a cluster that was set back has forgotten excuses nothing from now on.
func (h *History) Ends() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missing()
	h.finishTogether()
	h.inventions()
	h.remember()
}

// finishTogether checks that each proxy has finished exactly if its delegate has.
func (h *History) finishTogether() {
	ended := map[types.UID]*delegate{}
	for _, d := range h.delegates {
		if p := h.proxies[d.parent]; p != nil && !d.forgotten && p.on(d.cluster) && Finished(d.phase) {
			ended[d.parent] = d
		}
	}
	for uid, p := range h.proxies {
		if p.gone || p.deleting || h.isAllowed(uid) {
			continue
		}
		switch d := ended[uid]; {
		case d != nil && !Finished(p.phase):
			h.violateOf(uid, ExitCodes, "delegate of %s has %s %s, its proxy is %s", p.name, d.phase, d.codes, p.phase)
		case d == nil && Finished(p.phase):
			h.violateOf(uid, ExitCodes, "proxy %s is %s %s, and no delegate has finished", p.name, p.phase, p.codes)
		}
	}
}

// Finished reports whether a pod of this phase has finished.
func Finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

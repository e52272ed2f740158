package checker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Violation is a promise that was broken.
type Violation struct {
	At   time.Time
	Rule Rule
	Text string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.Rule, v.Text)
}

// Rule is the name of a promise, as the report lists it.
type Rule string

// The rules.
const (
	OnePerProxy    Rule = "at most one delegate of a proxy runs"
	OnePerOrdinal  Rule = "at most one pod of an ordinal of a StatefulSet runs"
	NoneLost       Rule = "no pod goes unless somebody asked for it"
	Terminal       Rule = "what has finished stays as it is"
	ExitCodes      Rule = "no exit code and no completion is lost or invented"
	Budgets        Rule = "budgets are kept"
	Converges      Rule = "each proxy has its delegate, and each delegate its proxy, in time"
	Notices        Rule = "a target that cannot be reached is noticed in time"
	NothingIsStuck Rule = "nothing is left that cannot be deleted"
)

// History is what the checker knows. Its methods may be called by several goroutines.
type History struct {
	now func() time.Time

	mu         sync.Mutex // guards the fields below
	proxies    map[types.UID]*proxy
	delegates  map[types.UID]*delegate
	allowed    map[types.UID]string
	forgets    map[string]bool      // clusters that were set back
	away       map[string]time.Time // clusters that are cut off, with zero; or since when no more
	reported   map[string]bool
	violations []Violation
	doubles    int
}

type proxy struct {
	name, node string
	version    string // the resourceVersion
	ordinal    bool   // of a StatefulSet
	kept       bool   // must get through everything
	controlled bool   // by something that may delete it
	deleting   bool
	gone       bool // A proxy that is gone may have a delegate that runs.
	phase      corev1.PodPhase
	codes      string
}

// on reports whether the proxy is bound to the virtual node of a cluster. A delegate elsewhere was withdrawn before the
// proxy was bound, and its end means nothing.
func (p *proxy) on(cluster string) bool { return p.node == "admiralty-"+cluster }

type delegate struct {
	cluster, name string
	parent        types.UID
	version       string
	phase         corev1.PodPhase
	codes         string
	gone          bool
}

// excusedFor is the time after the end of an outage in which the product may still find what happened in it.
const excusedFor = 90 * time.Second

// NewHistory returns an empty history. The function now returns the current time.
func NewHistory(now func() time.Time) *History {
	return &History{
		now:     now,
		proxies: map[types.UID]*proxy{}, delegates: map[types.UID]*delegate{},
		allowed: map[types.UID]string{}, reported: map[string]bool{},
		forgets: map[string]bool{}, away: map[string]time.Time{},
	}
}

// Allow notes that somebody asked for the end of a proxy, and how.
func (h *History) Allow(uid types.UID, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.allowed[uid] = how
}

// Allowed reports whether somebody asked for the end of a proxy, or of its delegate.
func (h *History) Allowed(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.allowed[uid] != ""
}

// Away notes that the source cannot reach a cluster, or that it can again.
func (h *History) Away(cluster string, away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch _, was := h.away[cluster]; {
	case away:
		h.away[cluster] = time.Time{}
	case was:
		h.away[cluster] = h.now()
	}
}

// SetBack notes that a cluster forgets what happened since an earlier time. The caller watches it anew. Until it is not
// away any more, and somewhat longer, pods may run that were ended since. Pods with the label app=kept must get through
// it.
func (h *History) SetBack(cluster string, source bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away[cluster] = time.Time{}
	for uid, p := range h.proxies {
		if !p.kept {
			h.allowed[uid] = "a cluster was set back"
		}
	}
	for uid, d := range h.delegates {
		if d.cluster == cluster {
			delete(h.delegates, uid)
		}
	}
	for uid, p := range h.proxies {
		if source && !p.kept {
			delete(h.proxies, uid)
		}
	}
	h.forgets[cluster] = true
}

// Violations returns the promises that were broken so far.
func (h *History) Violations() []Violation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.violations)
}

// Violate adds a violation that the caller found. Another of the same rule and text is not added.
func (h *History) Violate(rule Rule, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violate(rule, format, args...)
}

func (h *History) violate(rule Rule, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	key := string(rule) + text
	if h.reported[key] {
		return
	}
	h.reported[key] = true
	h.violations = append(h.violations, Violation{At: h.now(), Rule: rule, Text: text})
}

// Proxy notes the state of a pod of the source.
func (h *History) Proxy(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.proxies[pod.UID]
	is := &proxy{
		name: pod.Name, node: pod.Spec.NodeName, version: pod.ResourceVersion, deleting: pod.DeletionTimestamp != nil,
		phase: pod.Status.Phase, codes: codes(pod), kept: pod.Labels["app"] == "kept",
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		is.controlled, is.ordinal = owner.Kind != "Job", owner.Kind == "StatefulSet"
	}
	h.proxies[pod.UID] = is
	if was != nil && Finished(was.phase) && (is.phase != was.phase || is.codes != was.codes) {
		h.violate(Terminal, "proxy %s was %s %s, and is %s %s", is.name, was.phase, was.codes, is.phase, is.codes)
	}
	h.compareEnds(pod.UID)
}

// ProxyGone notes that a pod of the source does not exist any more.
func (h *History) ProxyGone(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.proxies[pod.UID]
	if is == nil {
		return
	}
	is.gone = true
	if h.allowed[pod.UID] == "" && !is.controlled {
		h.violate(NoneLost, "proxy %s (%s on %q, %s) is gone, and nobody deleted it",
			is.name, pod.UID, is.node, is.phase)
	}
}

// Delegate notes the state of a delegate.
func (h *History) Delegate(cluster string, parent types.UID, pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delegates[pod.UID] = &delegate{
		cluster: cluster, name: pod.Name, parent: parent, version: pod.ResourceVersion,
		phase: pod.Status.Phase, codes: codes(pod),
	}
	h.compareEnds(parent)
}

// DelegateGone notes that a delegate does not exist any more.
func (h *History) DelegateGone(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.delegates[uid]; d != nil {
		d.gone = true
	}
}

// Leftovers returns the delegates that do not exist any more, and run.
func (h *History) Leftovers(running map[types.UID][]int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var left []string
	for uid := range running {
		if d := h.delegates[uid]; d != nil && d.gone {
			left = append(left, d.name+" in "+d.cluster)
		}
	}
	return left
}

// compareEnds compares the end of a proxy with that of its delegate. A pod that somebody deleted may end in any way.
func (h *History) compareEnds(uid types.UID) {
	p := h.proxies[uid]
	if p == nil || p.deleting || h.allowed[uid] != "" || !Finished(p.phase) {
		return
	}
	for _, d := range h.delegates {
		if d.parent == uid && p.on(d.cluster) && Finished(d.phase) && (d.phase != p.phase || d.codes != p.codes) {
			h.violate(ExitCodes, "proxy %s is %s %s, its delegate %s %s", p.name, p.phase, p.codes, d.phase, d.codes)
		}
	}
}

// Lags returns the name of a pod of which the history knows another state than that of the pods given, which are all
// that exist. After an outage, a watch of a cluster may take a minute to begin anew.
func (h *History) Lags(exist map[types.UID]*corev1.Pod) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[types.UID]string{}
	for uid, p := range h.proxies {
		if !p.gone {
			known[uid] = p.version
		}
		if !p.gone && exist[uid] == nil {
			return p.name
		}
	}
	for uid, d := range h.delegates {
		if !d.gone {
			known[uid] = d.version
		}
		if !d.gone && exist[uid] == nil {
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

// Ends checks, at a time of rest, that each proxy has finished exactly if its delegate has.
func (h *History) Ends() {
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := map[types.UID]*delegate{}
	for _, d := range h.delegates {
		if p := h.proxies[d.parent]; p != nil && p.on(d.cluster) && Finished(d.phase) {
			ended[d.parent] = d
		}
	}
	for uid, p := range h.proxies {
		if p.gone || p.deleting || h.allowed[uid] != "" {
			continue
		}
		switch d := ended[uid]; {
		case d != nil && !Finished(p.phase):
			h.violate(ExitCodes, "delegate of %s has %s %s, its proxy is %s", p.name, d.phase, d.codes, p.phase)
		case d == nil && Finished(p.phase):
			h.violate(ExitCodes, "proxy %s is %s %s, and no delegate has finished", p.name, p.phase, p.codes)
		}
	}
}

// Running notes which pods have a process, by their UID.
func (h *History) Running(pods map[types.UID]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byProxy := map[types.UID][]*delegate{}
	byOrdinal := map[string][]*delegate{}
	for uid := range pods {
		d := h.delegates[uid]
		if d == nil {
			continue // not a delegate, or not known yet: the next look finds it
		}
		byProxy[d.parent] = append(byProxy[d.parent], d)
		if p := h.proxies[d.parent]; p != nil && p.ordinal {
			byOrdinal[p.name] = append(byOrdinal[p.name], d)
		}
	}
	for uid, running := range byProxy {
		if len(running) > 1 && !h.forgotten(running) && !h.excused(uid, running) {
			h.violate(OnePerProxy, "%s", h.describe(uid, running))
		}
	}
	for name, running := range byOrdinal {
		parents := map[types.UID]bool{}
		for _, d := range running {
			parents[d.parent] = true
		}
		if len(parents) > 1 && !h.forgotten(running) {
			h.violate(OnePerOrdinal, "%s runs as %s", name, places(running))
		}
	}
}

// excused reports whether a second delegate is one that the product cannot prevent: the proxy was not bound, and one of
// its delegates is in a cluster that cannot be reached, or could not until now.
func (h *History) excused(uid types.UID, running []*delegate) bool {
	p := h.proxies[uid]
	for _, d := range running {
		if h.outOfReach(d.cluster) && (p == nil || p.node != "admiralty-"+d.cluster) {
			h.doubles++
			return true
		}
	}
	return false
}

// forgotten reports whether one of the delegates is in a cluster that was set back, and was accepted just now at most.
func (h *History) forgotten(running []*delegate) bool {
	return slices.ContainsFunc(running, func(d *delegate) bool {
		return h.forgets[d.cluster] && h.outOfReach(d.cluster)
	})
}

// outOfReach reports whether the source cannot reach a cluster, or could not until now.
func (h *History) outOfReach(cluster string) bool {
	since, away := h.away[cluster]
	return away && (since.IsZero() || h.now().Sub(since) <= excusedFor)
}

func (h *History) describe(uid types.UID, running []*delegate) string {
	name, node := string(uid), ""
	if p := h.proxies[uid]; p != nil {
		name, node = p.name, p.node
	}
	return fmt.Sprintf("proxy %s on %q runs as %s", name, node, places(running))
}

func places(running []*delegate) string {
	places := make([]string, 0, len(running))
	for _, d := range running {
		places = append(places, d.name+" in "+d.cluster)
	}
	slices.Sort(places)
	return strings.Join(places, " and ")
}

// Finished reports whether a pod of this phase has finished.
func Finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// codes returns the exit codes of a pod's containers in words.
func codes(pod *corev1.Pod) string {
	var all []string
	for i := range pod.Status.ContainerStatuses {
		if ended := pod.Status.ContainerStatuses[i].State.Terminated; ended != nil {
			all = append(all, fmt.Sprintf("%s=%d", pod.Status.ContainerStatuses[i].Name, ended.ExitCode))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

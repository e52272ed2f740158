package simulation

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const kindLease, kindTarget = "Lease", "ClusterTarget"

// underWay is how long the end of a pod may be under way after it was decided.
const underWay = timeouts.ReconcileChaperon + latest + reaction

// siegedKey is the target that the source loses.
var siegedKey = types.NamespacedName{Name: "c1"}

// TestAFencedPodRunsOnceWhateverGoesWrong has a source with fenced pods in a target that is cut off again and again.
func TestAFencedPodRunsOnceWhateverGoesWrong(t *testing.T) {
	seen := &coverage{}
	t.Cleanup(func() { seen.report(t) })
	eachOf(t, 10, func(t *testing.T, seed uint64) {
		t.Helper()
		reached := map[string]bool{}
		trace, failed := besiege(t, func(s *siege) {
			s.reached = reached
			s.randomly(seed)
		})
		seen.add(reached)
		report(t, seed, trace, failed, func(steps []string) ([]string, error) {
			return besiege(t, func(s *siege) { s.repeat(steps) })
		})
	})
}

func TestARunOfFencingIsRepeatable(t *testing.T) {
	repeatable(t, 2, func(seed uint64) []string {
		steps, _ := besiege(t, func(s *siege) { s.randomly(seed) })
		return steps
	}, func(steps []string) []string {
		again, _ := besiege(t, func(s *siege) { s.repeat(steps) })
		return again
	})
}

// besiege does steps, and then repairs everything.
func besiege(t *testing.T, steps func(s *siege)) (trace []string, failed error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := newSiege()
		s.rest()
		steps(s)
		if s.failed() == nil {
			s.heal()
		}
		s.sources[0].crash()
		s.guard.crash(errCrash)
		synctest.Wait()
		trace, failed = s.trace, s.failed()
	})
	return trace, failed
}

// siege is a contest of one source, which has fenced pods in the target.
type siege struct {
	*contest

	source *cluster    // the source's API server
	kube   *kubernetes // the target
	// guard is the target's manager, and lost is the source's part that confirms the end of pods.
	guard *guard
	lost  *queue
	// cut says that the source does not reach the target.
	cut bool
	// lawless says that the target may do what fencing does not allow for. calm says that no long time passes without
	// the source's doing something.
	lawless, calm bool
	guards        int
	heard         hearing
	// began is when the run began, and deaf is for how long the target could not hear since.
	began time.Time
	deaf  time.Duration
	// unlawful is when something was last so that fencing does not allow for.
	unlawful time.Time
	// delegates are the proxies of all pods that the target had, by the pods' UIDs.
	delegates map[types.UID]types.UID
	// over are the proxies whose end was confirmed while all held that fencing assumes.
	over map[types.UID]bool
	// spared says that nothing may be fenced any more.
	spared  bool
	reached map[string]bool
}

// hearing is what the target has surely heard of the source, and what disturbed its manager since.
type hearing struct {
	// times are when renewals were carried out, since the run began. hearable are the same on a clock that stands still
	// while the target could hear nobody.
	times, hearable []time.Duration
	// changes is how often nobody led the target's managers since the last one, and absent since when this is so.
	changes int
	absent  time.Time
	// lawless says that something happened since that fencing does not allow for.
	lawless bool
}

func newSiege() *siege {
	s := &siege{
		contest: newContest(), source: newCluster("source"), delegates: map[types.UID]types.UID{},
		over: map[types.UID]bool{}, reached: map[string]bool{}, began: time.Now(),
	}
	s.kube = &kubernetes{cluster: s.target, containers: map[types.UID]*container{}}
	s.source.changed, s.target.changed = s.sourceChanged, s.targetChanged
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: siegedKey.Name}}
	target.Status.Fences = ptr.To(false)
	_, _ = s.source.create(target)
	s.place("web-0", timeouts.FenceLeast, 30*time.Second)
	s.place("web-1", 2*time.Minute, 5*time.Second)
	s.guard = s.newGuard()
	s.lookAfterTarget()
	return s
}

// place lets a pod have been placed in the target.
func (s *siege) place(name string, fence, grace time.Duration) {
	proxy := newProxy(name, corev1.RestartPolicyAlways, false)
	proxy.Spec.TerminationGracePeriodSeconds = ptr.To(int64(grace / time.Second))
	proxy.Spec.NodeName = translate.VirtualNodeName(siegedKey)
	proxy.Annotations[v1alpha1.AnnotationFencedAfter] = translate.FenceValue(fence)
	created, _ := s.source.create(proxy)
	chaperon, err := translate.Chaperon(asPod(created), translate.Source{ClusterID: sourceID},
		translate.Destination{Target: siegedKey, Fence: fence})
	if err != nil {
		s.violate("translating %s: %v", name, err)
		return
	}
	_, _ = s.target.create(chaperon)
}

func (s *siege) clusterTarget() *v1alpha1.ClusterTarget {
	target, _ := s.source.objects[ref{kindTarget, siegedKey}].(*v1alpha1.ClusterTarget)
	return target
}

// show is what package connect/target writes into the status of the target.
func (s *siege) show(reason string, change func(status *v1alpha1.TargetStatus)) {
	target := s.clusterTarget().DeepCopy()
	connected := metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: reason}
	if reason == v1alpha1.ReasonConnected {
		connected.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&target.Status.Conditions, connected)
	change(&target.Status)
	s.source.put(target)
}

// targetChanged notes what the target heard, and which delegates it has.
func (s *siege) targetChanged(_ *cluster, now change) {
	switch o := now.after.(type) {
	case *coordinationv1.Lease:
		if o.Name == leaseKey.Name && now.before != nil {
			s.heard = hearing{
				times: append(s.heard.times, time.Since(s.began)), hearable: append(s.heard.hearable, s.hears()),
				absent: s.heard.absent,
			}
			if !s.guard.acts() {
				s.heard.changes, s.heard.absent = 1, time.Now()
			}
		}
	case *corev1.Pod:
		s.delegates[o.UID] = parentOf(o)
	}
}

// sourceChanged notes which proxies are gone for good. Their end is confirmed by a request that may have been under way
// for some time.
func (s *siege) sourceChanged(_ *cluster, now change) {
	proxy, ok := now.before.(*corev1.Pod)
	if !ok || now.after != nil {
		return
	}
	s.reached["the end of a pod is confirmed"] = true
	awake := meta.FindStatusCondition(s.clusterTarget().Status.Conditions, v1alpha1.ConditionAwake)
	if awake != nil && awake.Status == metav1.ConditionFalse && time.Since(awake.LastTransitionTime.Time) > underWay {
		s.violate("the end of %s is confirmed, and the target's manager was silent before", proxy.Name)
	}
	if time.Since(s.unlawful) > underWay {
		s.reached["the end of a pod is confirmed, and fencing holds"] = true
		s.over[proxy.UID] = true
	}
}

// lawful says whether all is so, since the target heard of the source, that fencing assumes.
func (s *siege) lawful() bool { return !s.heard.lawless && s.heard.changes <= 1 && !s.absentForLong() }

// absentForLong says whether nobody has led the target's managers for longer than fencing allows for.
func (s *siege) absentForLong() bool {
	return !s.guard.acts() && time.Since(s.heard.absent) > timeouts.FenceRestart
}

// hears is for how long the target could hear somebody.
func (s *siege) hears() time.Duration { return time.Since(s.began) - s.deaf }

// longestGap returns the longest time between two renewals, or since the last one, that ended of late.
func longestGap(renewals []time.Duration, now, late time.Duration) time.Duration {
	var longest time.Duration
	times := slices.Concat([]time.Duration{0}, renewals, []time.Duration{now})
	for i := len(times) - 1; i > 0 && now-times[i] <= late; i-- {
		longest = max(longest, times[i]-times[i-1])
	}
	return longest
}

// decided checks a decision of the target's manager that the source of a PodChaperon has been silent for too long, and
// had a minute to be heard. The manager sees Leases late, and measures silence at its own renewals. One that was frozen
// may decide by what it saw before: the product lets it write nothing then.
func (s *siege) decided(chaperon *v1alpha1.PodChaperon, silent time.Duration) {
	late := timeouts.FenceBlind + timeouts.FenceSlack
	if time.Since(s.guard.woke) <= late {
		late += s.guard.slept
	}
	fence, err := translate.Fence(chaperon.Annotations[v1alpha1.AnnotationFenceAfter])
	if err != nil || silent < fence {
		return
	}
	gap := longestGap(s.heard.times, time.Since(s.began), late)
	chance := longestGap(s.heard.hearable, s.hears(), late)
	switch {
	case gap < fence-timeouts.FenceBlind:
		s.violate("%s counts the source as silent for %s, which was silent for %s", s.guard.name, silent, gap)
	case chance < timeouts.FenceLeast-timeouts.FenceBlind:
		s.violate("%s counts the source as silent, which had %s to be heard", s.guard.name, chance)
	case s.spared:
		s.violate("%s fences %s of a source that is heard", s.guard.name, chaperon.Name)
	}
}

// rest waits, and checks that no delegate runs whose proxy has been replaced.
func (s *siege) rest() {
	s.contest.rest()
	if !s.lawful() {
		s.unlawful = time.Now()
	}
	for _, q := range s.queues() {
		q.due()
	}
	for uid, proxy := range s.delegates {
		c := s.kube.containers[uid]
		if s.over[proxy] && c != nil && c.running {
			s.violate("%s runs, and the end of its pod was confirmed", c.pod.Name)
		}
	}
}

func (s *siege) queues() []*queue {
	var all []*queue
	if s.sources[0].leader.alive() {
		all = append(all, s.lost)
	}
	if s.guard.acts() {
		all = append(all, s.guard.queue)
	}
	return all
}

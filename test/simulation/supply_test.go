package simulation

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// TestCopiesServePodsWhateverGoesWrong has a source, two targets, and the ConfigMaps, Secrets and claims that pods need
// there. A run takes six times as long as one of pods, so a tenth of the runs is done.
func TestCopiesServePodsWhateverGoesWrong(t *testing.T) {
	seen := &coverage{}
	t.Cleanup(func() { seen.report(t) })
	eachOf(t, 10, func(t *testing.T, seed uint64) {
		t.Helper()
		trySupply(t, seed, false, seen)
	})
}

// trySupply does a random run, and reports its failure.
func trySupply(t *testing.T, seed uint64, serving bool, seen *coverage) {
	t.Helper()
	trace, failed := supplyPods(t, serving, func(w *supply) {
		w.randomly(seed)
		seen.add(w.reached)
	})
	report(t, seed, trace, failed, func(steps []string) ([]string, error) {
		return supplyPods(t, serving, func(w *supply) { w.repeat(steps) })
	})
}

// TestARunOfCopiesIsRepeatable lets half of the runs differ: the product's own workers and timers are part of them.
func TestARunOfCopiesIsRepeatable(t *testing.T) {
	repeatable(t, 10, func(seed uint64) []string {
		steps, _ := supplyPods(t, false, func(w *supply) { w.randomly(seed) })
		return steps
	}, func(steps []string) []string {
		again, _ := supplyPods(t, false, func(w *supply) { w.repeat(steps) })
		return again
	})
}

// supplyPods does steps, and then repairs everything.
func supplyPods(t *testing.T, serving bool, steps func(w *supply)) (trace []string, failed error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newSupply(serving)
		w.rest()
		steps(w)
		if w.failed() == nil {
			w.heal()
		}
		w.manager.crash(errCrash)
		for _, k := range w.sites {
			k.collector.crash(errCrash)
		}
		w.sleep(time.Minute) // Reflectors end when they have backed off.
		synctest.Wait()
		trace, failed = w.trace, w.failed()
	})
	return trace, failed
}

// supply is a source with pods, and targets with copies of what these need.
type supply struct {
	*network

	// serving says that Services, Ingresses and ServiceAccounts are copied, in place of ConfigMaps and claims.
	serving bool
	source  *httpServer
	sites   []*site
	manager *supplier
	// version is that of the data of the last object that was written.
	version int
	// volumes are the volumes that have the data of claims, by the claims' UIDs.
	volumes map[types.UID]volume
	// placed is when the placement of a PodChaperon's pod began.
	placed map[types.UID]time.Time
	// strange are names of objects that somebody else made, changed or deleted in a target, or claims that somebody
	// gave up. What becomes of their pods is not foreseen.
	strange map[string]bool
	// objected are the targets and kinds of Services and Ingresses about which there was an event. The network's mutex
	// guards them.
	objected map[string]bool
	reached  map[string]bool
}

// site is a target, and its manager's part that deletes copies.
type site struct {
	*httpServer

	collector *process
	// cut says that the source does not reach the target, and guarded that the admission policy holds there.
	cut, guarded bool
	// scheduled are the PodChaperons whose delegates have a node, and running those whose delegates run.
	scheduled, running map[types.UID]bool
}

// volume is that of a claim in a target.
type volume struct {
	at  *site
	uid types.UID
}

const (
	settings, secretKey, dataClaim = "settings", "key", "data"

	storageClass = "standard"

	// longestSilence is how long a target that does not answer is not lost yet.
	longestSilence = 30 * time.Second
)

func newSupply(serving bool) *supply {
	w := &supply{
		network: &network{}, serving: serving, volumes: map[types.UID]volume{}, placed: map[types.UID]time.Time{},
		strange: map[string]bool{}, objected: map[string]bool{}, reached: map[string]bool{},
	}
	w.source = w.newHTTPServer("source", w.sourceChanged)
	for i, name := range []string{"c1", "c2"} {
		k := &site{scheduled: map[types.UID]bool{}, running: map[types.UID]bool{}}
		k.httpServer = w.newHTTPServer(name, func(_ *cluster, now change) { w.copyChanged(k, now) })
		if i == 0 {
			k.guarded, k.refuses = true, k.policy
		}
		w.sites = append(w.sites, k)
		w.startCollector(k)
	}
	for _, r := range w.refs() {
		_, _ = w.source.create(w.object(r.Name, false))
	}
	if !serving {
		_, _ = w.source.create(followedClaim())
	}
	w.startSupplier()
	return w
}

func (w *supply) newHTTPServer(name string, changed func(*cluster, change)) *httpServer {
	admits := func(*process, *httpRequest, client.Object) error { return nil }
	s := &httpServer{
		cluster: newCluster(name), refuses: admits,
		simulated: []string{"configmaps", "secrets", "persistentvolumeclaims"},
	}
	if w.serving {
		s.simulated = []string{"serviceaccounts", "secrets", "services", "endpointslices", "ingresses"}
	}
	s.changed = changed
	enabled := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	}}
	s.fixed = map[string][]client.Object{
		"namespaces":     {enabled},
		"nodes":          virtualNodes(),
		"storageclasses": {&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: storageClass}}},
	}
	return s
}

// policy is the ValidatingAdmissionPolicy of the chart, and the role of a source: it reads no ConfigMaps and Secrets,
// and changes its own copies only.
func (k *site) policy(by *process, q *httpRequest, o client.Object) error {
	if by == k.collector || !q.writes() {
		return nil
	}
	if unlabelled(o, by.name) || o.GetLabels()[v1alpha1.LabelParentClusterID] == "" {
		return apierrors.NewForbidden(resourceOf(refOf(o)), o.GetName(), errors.New(v1alpha1.AnnotationFollowedBy))
	}
	return nil
}

// rest waits until nothing happens any more without the simulation.
func (w *supply) rest() { w.giveUp() }

func (w *supply) do(a action) {
	w.trace = append(w.trace, a.label)
	w.noticeStep(a.label)
	w.sleep(time.Nanosecond) // No two timers end at the same instant.
	a.do()
	w.rest()
}

// pass lets time pass. The source notices after a while that a target does not answer.
func (w *supply) pass(d time.Duration) {
	w.sleep(d)
	for _, k := range w.sites {
		if k.cut && d >= longestSilence && w.manager.alive() {
			w.manager.lose(k)
		}
	}
	w.rest()
}

// cutOff says whether a process does not reach a cluster. The target's own manager does.
func (w *supply) cutOff(p *process, c *cluster) bool {
	return p.of == w.source.cluster &&
		slices.ContainsFunc(w.sites, func(k *site) bool { return k.cut && k.cluster == c })
}

// randomly does random steps. Each run has its own kinds of faults.
func (w *supply) randomly(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	among := func(numbers ...int) int { return numbers[random.IntN(len(numbers))] }
	var kinds []func() []action
	add := func(kind func() []action, often ...int) {
		for range among(often...) {
			kinds = append(kinds, kind)
		}
	}
	burst := among(4, 12, 30)
	add(func() []action { return w.goesOn(random, burst) }, 16)
	add(w.pods, 2)
	add(w.podsThatGo, 0, 1, 2)
	add(w.originals, 1, 2)
	if w.serving {
		add(w.ofServices, 1, 3)
	} else {
		add(w.ofClaims, 0, 1, 3)
	}
	add(w.others, 0, 0, 1, 2)
	add(w.races, 0, 0, 0, 2)
	add(w.passes, 1, 2, 3)
	add(w.failures, 0, 0, 2, 5)
	add(func() []action { return w.delays(w.cutOff) }, 0, 0, 2, 5)
	add(w.ends, 0, 0, 1, 3)
	add(w.crashes, 0, 0, 1, 2)
	add(w.outages, 0, 0, 1, 3)
	add(w.setBacks, 0, 0, 0, 0, 1)
	for range stepsOfARun {
		if len(w.trace) >= stepsOfARun || w.failed() != nil {
			return
		}
		if all := kinds[random.IntN(len(kinds))](); len(all) > 0 {
			w.do(all[random.IntN(len(all))])
		}
	}
}

// goesOn does several steps in a row of what goes on by itself, but the last one.
func (w *supply) goesOn(random *rand.Rand, burst int) []action {
	for range random.IntN(burst) {
		all := w.progress()
		if len(all) == 0 || w.failed() != nil {
			break
		}
		w.do(all[random.IntN(len(all))])
	}
	if all := w.progress(); len(all) > 0 {
		return all
	}
	return w.passes()
}

func (w *supply) repeat(labels []string) {
	for _, label := range labels {
		if w.failed() != nil {
			return
		}
		all := slices.Concat(
			w.progress(), w.pods(), w.podsThatGo(), w.originals(), w.ofClaims(), w.ofServices(), w.others(), w.races(),
			w.passes(), w.failures(), w.delays(w.cutOff), w.ends(), w.crashes(), w.outages(), w.setBacks(),
		)
		if i := slices.IndexFunc(all, func(a action) bool { return a.label == label }); i >= 0 {
			w.do(all[i])
		}
	}
}

// noticeStep notes the situations in which a step is done.
func (w *supply) noticeStep(label string) {
	for text, situation := range map[string]string{
		"is set back":                   "a target is set back",
		"crashes":                       "a manager crashes",
		"is lost":                       "a target is lost",
		"arrives late":                  "a request arrives late",
		"and it lists":                  "a watch ends, and lists",
		"create persistentvolumeclaims": "a claim is copied",
		"delete persistentvolumeclaims": "a claim's copy is deleted",
		"delete configmaps":             "a copy is deleted",
		"update configmaps":             "a copy is updated",
		"create services":               "a Service is copied",
		"patch services":                "a copy of a Service is changed",
		"delete services":               "a copy of a Service is deleted",
		"create endpointslices":         "endpoints are copied",
		"patch endpointslices":          "copied endpoints are changed",
		"create ingresses":              "an Ingress is copied",
		"delete ingresses":              "a copy of an Ingress is deleted",
		"create serviceaccounts":        "a ServiceAccount is copied",
		"runs":                          "a delegate runs",
		"gives up":                      "a user gives up a claim's copy",
		"by force":                      "a user deletes a pod by force",
	} {
		if strings.Contains(label, text) {
			w.reached[situation] = true
		}
	}
}

// claimOf returns the claim of a pod, or nil.
func claimOf(spec *corev1.PodSpec) *corev1.PersistentVolumeClaimVolumeSource {
	for i := range spec.Volumes {
		if claim := spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			return claim
		}
	}
	return nil
}

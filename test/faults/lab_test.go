package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// newLab returns a lab with fake clusters, in a folder with a fake kubectl.
func newLab(t *testing.T, kubectl string, objects ...client.Object) *lab {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join(".local", "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/usr/bin/env bash\n" + kubectl
	if err := os.WriteFile(filepath.Join(".local", "bin", "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &lab{
		clusters: map[string]*cluster{source: {Client: c, name: source}},
		history:  checker.NewHistory(time.Now), done: map[string]bool{}, say: t.Logf,
	}
}

func (l *lab) broken() []checker.Rule {
	var rules []checker.Rule
	for _, v := range l.history.Violations() {
		rules = append(rules, v.Rule)
	}
	return rules
}

func TestATargetMayOnlySayThatItWasSetBackIfItWas(t *testing.T) {
	for _, setBack := range []bool{false, true} {
		says := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: target}}
		says.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTurnedBack,
		}}
		l := newLab(t, "", says)
		l.setBack.Store(setBack)
		_ = l.atRest(t.Context()) // There are no nodes.
		if got := slices.Contains(l.broken(), checker.NoFalseAlarm); got == setBack {
			t.Errorf("set back: %t; broken promises: %v", setBack, l.history.Violations())
		}
	}
}

func TestOnlyASourceThatActedInTheLostTimeMustNoticeIt(t *testing.T) {
	for _, test := range []struct {
		saved, last, now int64
		fine             bool
	}{
		{saved: 1, last: 1, now: 1, fine: false},
		{saved: 1, last: 1, now: 9, fine: true},
		{saved: 1, last: 5, now: 9, fine: false},
	} {
		l := newLab(t, "", &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: target}},
			newHeldLease(time.UnixMicro(test.now)))
		l.clusters[target] = l.clusters[source]
		err := l.notice(t.Context(), renewal{"manager", test.saved}, renewal{"manager", test.last})
		if (err == nil) != test.fine {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// newHeldLease is the Lease of a source in a target.
func newHeldLease(renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "admiralty-leases", Name: "source-1",
			Annotations: map[string]string{v1alpha1.LabelParentClusterID: "id"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("manager"), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}
}

func TestNothingIsAtRestUntilTheTargetHearsOfTheSource(t *testing.T) {
	ofADeletedSource := newHeldLease(time.Now().Add(-time.Hour))
	ofADeletedSource.Name = "a-source"
	for _, test := range []struct {
		leases []client.Object
		fine   bool
	}{
		{leases: nil, fine: false},
		{leases: []client.Object{newHeldLease(time.Now().Add(-20 * time.Second))}, fine: false},
		{leases: []client.Object{newHeldLease(time.Now().Add(-time.Second))}, fine: true},
		{leases: []client.Object{ofADeletedSource, newHeldLease(time.Now().Add(-time.Second))}, fine: true},
	} {
		l := newLab(t, "", test.leases...)
		l.clusters[target] = l.clusters[source]
		if err := l.sourceRenews(t.Context()); (err == nil) != test.fine {
			t.Errorf("%v: %v", test.leases, err)
		}
	}
}

func newFencedPod(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fenced + "-" + string(uid), UID: uid, Labels: map[string]string{"app": fenced},
	}}
}

func TestTheFencedPodHasToMoveFromTheTarget(t *testing.T) {
	inCluster := func(uid types.UID, cluster string) *corev1.Pod {
		pod := newFencedPod(uid)
		pod.Spec.NodeName, pod.Status.Phase = "admiralty-"+cluster, corev1.PodRunning
		return pod
	}
	l := newLab(t, "echo $* >> asked", inCluster("a", target))
	if uid, err := l.placeFenced(t.Context(), fenced); uid != "a" || err != nil {
		t.Errorf("it is in the target: %q, %v", uid, err)
	}
	ending := inCluster("a", target)
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"kept"}
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		moved bool
	}{
		"it is still in the target":                {pod: inCluster("a", target)},
		"it was in the source from the beginning":  {pod: inCluster("a", source)},
		"there is another one, also in the target": {pod: inCluster("b", target)},
		"there is another one in the source":       {pod: inCluster("b", source), moved: true},
	} {
		l := newLab(t, "", test.pod)
		if test.pod.UID == "b" { // The lost one of a Deployment may be there, too.
			l = newLab(t, "", ending.DeepCopy(), test.pod)
		}
		if err := l.fencedMoved(t.Context(), fenced, "a"); (err == nil) != test.moved {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheFencedPodIsPlacedInTheTarget(t *testing.T) {
	pod := newFencedPod("a")
	pod.Spec.NodeName, pod.Status.Phase = "admiralty-"+source, corev1.PodRunning
	l := newLab(t, "echo $* >> asked", pod)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := l.placeFenced(ctx, fenced); err == nil {
		t.Error("it stays in the source, and counts as placed")
	}
	asked, err := os.ReadFile("asked")
	for _, want := range []string{"cordon admiralty-" + source, "delete pod fenced-a", "uncordon admiralty-" + source} {
		if err != nil || !strings.Contains(string(asked), want) {
			t.Errorf("nobody asked to %s: %s, %v", want, asked, err)
		}
	}
}

func TestVirtualNodesMayBeUnknownWhileTheSourcesOwnNodeIs(t *testing.T) {
	for own, excused := range map[corev1.ConditionStatus]bool{
		corev1.ConditionUnknown: true, corev1.ConditionTrue: false,
	} {
		l := newLab(t, "exit 0", nodeThatIs(source+"-node", own), nodeThatIs("admiralty-c2", corev1.ConditionUnknown))
		if got := l.look(t.Context(), target); got != unknown {
			t.Errorf("the virtual node is %q", got)
		}
		if got := l.broken(); (len(got) == 0) != excused {
			t.Errorf("the source's own node has Ready=%s, broken promises: %v", own, got)
		}
	}
}

func nodeThatIs(name string, ready corev1.ConditionStatus) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return node
}

func TestPodChaperonsOfFinishedPodsAreDeletedOften(t *testing.T) {
	labels, pods := map[string]string{"app": task}, []client.Object{}
	for name, phase := range map[string]corev1.PodPhase{
		"a": corev1.PodRunning, "b": corev1.PodRunning, "c": corev1.PodRunning, "d": corev1.PodSucceeded,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: labels}}
		pod.Spec.NodeName, pod.Status.Phase = "admiralty-"+source, phase
		pods = append(pods, pod)
	}
	l := newLab(t, `[[ $* != *uid-d* ]] || echo -n x >> finished`, pods...)
	r := rand.New(rand.NewPCG(1, 0))
	const all = 40
	for range all {
		remove := deleteInTarget(checker.DelegateDeleted, "podchaperon", []string{task})
		if err := remove(t.Context(), l, r); err != nil {
			t.Fatal(err)
		}
	}
	if finished, err := os.ReadFile("finished"); err != nil || len(finished) < all/2 || len(finished) == all {
		t.Errorf("%d of %d deletions were of the finished pod: %v", len(finished), all, err)
	}
}

func TestAfterARoundTheDelegatesOfFinishedPodsGo(t *testing.T) {
	labels, pods := map[string]string{"app": task}, []client.Object{}
	for name, where := range map[string]struct {
		cluster string
		phase   corev1.PodPhase
	}{
		"done":   {source, corev1.PodSucceeded},
		"failed": {target, corev1.PodFailed},
		"runs":   {target, corev1.PodRunning},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: labels}}
		pod.Spec.NodeName, pod.Status.Phase = "admiralty-"+where.cluster, where.phase
		pods = append(pods, pod)
	}
	l := newLab(t, `echo "$2 $6 $7 ${9##*=}" >> deleted`, pods...)
	later := 0
	finish := func(ctx context.Context, c client.WithWatch, pod client.Object, opts ...client.CreateOption) error {
		later++
		pod.(*corev1.Pod).Status.Phase = corev1.PodSucceeded
		return c.Create(ctx, pod, opts...)
	}
	l.clusters[source].Client = interceptor.NewClient(l.clusters[source].Client.(client.WithWatch),
		interceptor.Funcs{Create: finish})
	if err := l.bereave(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("deleted")
	deleted := slices.Sorted(strings.Lines(string(raw)))
	want := []string{source + " delete podchaperon uid-done\n", target + " delete podchaperon uid-failed\n"}
	if err != nil || !slices.Equal(deleted, want) {
		t.Errorf("kubectl deleted %q, want %q: %v", deleted, want, err)
	}
	for uid, allowed := range map[types.UID]bool{"uid-done": true, "uid-failed": true, "uid-runs": false} {
		if l.history.Allowed(uid) != allowed {
			t.Errorf("of the delegate of %s: the checker knows of a deletion: %v", uid, !allowed)
		}
	}
	if later != 1 {
		t.Errorf("%d pods were awaited afterwards, and not one", later)
	}
}

func operationNamed(t *testing.T, name string) func(context.Context, *lab, *rand.Rand) error {
	t.Helper()
	for _, o := range operations() {
		if o.name == name {
			return o.do
		}
	}
	t.Fatalf("no operation %q", name)
	return nil
}

func TestTheShortFormHasToCarryOutItsFaults(t *testing.T) {
	done := map[string]bool{}
	for _, name := range shortFaults()[1:] {
		done[name] = true
	}
	short := options{short: true, rounds: shortRounds}
	if got := short.missing(done); !slices.Equal(got, shortFaults()[:1]) {
		t.Errorf("missing are %q", got)
	}
	l := &lab{history: checker.NewHistory(time.Now), done: map[string]bool{}, say: t.Logf}
	if err := short.complete(l, nil); err == nil {
		t.Error("a short form without faults passes")
	}
	for what, other := range map[string]options{"any other run": {}, "one round": {short: true, rounds: 1}} {
		if err := other.complete(l, nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := short.complete(l, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWhatTheShortFormCouldNotCarryOutComesAgainAlone(t *testing.T) {
	plans := newShortPlans(shortSeed)
	for _, name := range shortFaults() {
		p := plans.again(name)
		s := p.steps[0]
		if len(p.steps) != 1 || (s.fault == nil) == (s.operation == nil) || s.name() != name {
			t.Errorf("%q comes again as %s", name, p)
		}
	}
}

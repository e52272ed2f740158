package idle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var (
	errAway     = errors.New("the API server is away")
	podKind     = schema.GroupResource{Resource: "pods"}
	errConflict = apierrors.NewConflict(podKind, "p", errors.New("the UID differs"))
	errNotFound = apierrors.NewNotFound(podKind, "p")
)

// cluster is a source cluster with a Reconciler.
type cluster struct {
	*Reconciler
	recorder *events.FakeRecorder
	// patches are the patches of statuses, which fail with refused unless that is nil.
	patches []string
	refused error
	// unseen is the kind whose reads from the cache fail. unread has live reads fail.
	unseen string
	unread bool
}

func newCluster(seen, exist []client.Object) *cluster {
	s := &cluster{recorder: events.NewFakeRecorder(10)}
	s.Reconciler = New(Options{
		Client: fake.NewClientBuilder().WithObjects(seen...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption,
			) error {
				if s.unseen == fmt.Sprintf("%T", o) {
					return errAway
				}
				return c.Get(ctx, key, o, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption,
			) error {
				if s.unseen == fmt.Sprintf("%T", list) {
					return errAway
				}
				return c.List(ctx, list, options...)
			},
			SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, patch client.Patch,
				_ ...client.SubResourcePatchOption,
			) error {
				data, err := patch.Data(o)
				s.patches = append(s.patches, string(data))
				return errors.Join(err, s.refused)
			},
		}).Build(),
		APIReader: fake.NewClientBuilder().WithObjects(exist...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption,
			) error {
				if s.unread {
					return errAway
				}
				return c.Get(ctx, key, o, options...)
			},
		}).Build(),
		Acknowledge: true,
		Clock:       testclock.NewFakePassiveClock(now.Time),
		Recorder:    s.recorder,
	})
	return s
}

func (s *cluster) reconcile(t *testing.T) error {
	t.Helper()
	result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(named())})
	if result != (reconcile.Result{}) {
		t.Errorf("it is reconciled again: %v", result)
	}
	return err
}

func named(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := pod()
	p.Namespace, p.Name, p.UID = "shop", "p", "1"
	for _, change := range changes {
		change(p)
	}
	return p
}

func virtualNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue},
	}}
}

func objects(all ...client.Object) []client.Object { return all }

func TestAnIdlePodGetsAStatusAndAnEvent(t *testing.T) {
	daemon := ownedBy("apps/v1", "DaemonSet")
	s := newCluster(objects(named(daemon), virtualNode("admiralty-c2")), objects(named(daemon)))
	if err := s.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(s.patches) != 1 || !strings.Contains(s.patches[0], `"uid":"1"`) ||
		!strings.Contains(s.patches[0], ReasonNothingRuns) {
		t.Errorf("the patches are %v, want one of this very pod with what changes", s.patches)
	}
	if len(s.recorder.Events) > 0 {
		t.Errorf("an acknowledged pod has the event %q", <-s.recorder.Events)
	}

	s = newCluster(objects(named(), virtualNode("admiralty-c2")), objects(named()))
	if err := s.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(s.patches) != 1 || len(s.recorder.Events) != 1 {
		t.Fatalf("a pod that was bound by hand gets %d patches and %d events", len(s.patches), len(s.recorder.Events))
	}
	got := <-s.recorder.Events
	if !strings.HasPrefix(got, "Warning NotElected") || !strings.Contains(got, "Delete this pod") {
		t.Errorf("the event is %q", got)
	}
}

func TestAnEventIsRecordedOnce(t *testing.T) {
	before := func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = ReasonNotElected, "in other words" }
	s := newCluster(objects(named(), virtualNode("admiralty-c2")), objects(named(before)))
	if err := s.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(s.patches) != 1 || len(s.recorder.Events) > 0 {
		t.Errorf("there are %d patches and %d events, want one and none", len(s.patches), len(s.recorder.Events))
	}
}

func TestWhichPodsAreLeftAlone(t *testing.T) {
	virtual := virtualNode("admiralty-c2")
	done := func(p *corev1.Pod) { p.Status = *decide(p, true, now) }
	replaced := func(p *corev1.Pod) { p.UID = "2" }
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for name, test := range map[string]struct{ seen, exist []client.Object }{
		"a pod that nobody sees":            {objects(virtual), objects(named())},
		"a pod that has finished":           {objects(named(ended), virtual), objects(named())},
		"a pod whose node nobody sees":      {objects(named()), objects(named())},
		"a pod on a node with such a name":  {objects(named(), node("admiralty-c2")), objects(named())},
		"a pod that is gone":                {objects(named(), virtual), nil},
		"a pod whose name another one has":  {objects(named(), virtual), objects(named(replaced))},
		"a pod that has its status already": {objects(named(), virtual), objects(named(done))},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(test.seen, test.exist)
			if err := s.reconcile(t); err != nil || len(s.patches)+len(s.recorder.Events) > 0 {
				t.Errorf("got the patches %v, %d events and the error %v", s.patches, len(s.recorder.Events), err)
			}
		})
	}
}

func TestAPodThatIsNotIdleCostsNoRequest(t *testing.T) {
	proxy := func(p *corev1.Pod) {
		p.Spec.SchedulerName, p.Status.StartTime = v1alpha1.SchedulerName, &then
	}
	s := newCluster(objects(named(proxy), virtualNode("admiralty-c2")), nil)
	s.unseen = "*v1.Node"
	s.unread = true
	if err := s.reconcile(t); err != nil {
		t.Error(err)
	}
}

func TestFailuresAreTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(*cluster)
		want error
	}{
		"reading the pod from the cache":  {func(s *cluster) { s.unseen = "*v1.Pod" }, errAway},
		"reading the node from the cache": {func(s *cluster) { s.unseen = "*v1.Node" }, errAway},
		"reading the pod": {
			func(s *cluster) { s.unread = true }, errAway,
		},
		"writing":                      {func(s *cluster) { s.refused = errAway }, errAway},
		"the pod is gone":              {func(s *cluster) { s.refused = errNotFound }, nil},
		"another pod has the name now": {func(s *cluster) { s.refused = errConflict }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(objects(named(), virtualNode("admiralty-c2")), objects(named()))
			test.fail(s)
			if err := s.reconcile(t); !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			if len(s.recorder.Events) > 0 {
				t.Errorf("the event %q is recorded", <-s.recorder.Events)
			}
		})
	}
}

func TestPodsThatCameBeforeTheirNode(t *testing.T) {
	as := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }
	elsewhere := func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c3" }
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	s := newCluster(objects(named(as("a")), named(as("b"), elsewhere), named(as("c"), ended), named(as("d"))), nil)
	var got []string
	for _, request := range s.podsOn(t.Context(), virtualNode("admiralty-c2")) {
		got = append(got, request.String())
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"shop/a", "shop/d"}, got); diff != "" {
		t.Errorf("unexpected pods (-want +got):\n%s", diff)
	}
	if got := s.podsOn(t.Context(), node("admiralty-c2")); len(got) > 0 {
		t.Errorf("the pods of a node that is not virtual are %v", got)
	}
	s.unseen = "*v1.PodList"
	if got := s.podsOn(t.Context(), virtualNode("admiralty-c2")); len(got) > 0 {
		t.Errorf("the pods of a cache that has stopped are %v", got)
	}
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

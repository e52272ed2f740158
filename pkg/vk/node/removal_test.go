package node

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestATargetThatWasDeletedWhileNoManagerLedIsReported(t *testing.T) {
	key := types.NamespacedName{Name: "c2"}
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
	for name, test := range map[string]struct {
		seen    bool
		virtual string
		exists  []client.Object
		stays   bool
		event   string // a part of it
	}{
		"no manager led": {
			virtual: v1alpha1.LabelNodeProviderValue, event: "c2 was deleted while no manager led",
		},
		"the event has the command": {
			virtual: v1alpha1.LabelNodeProviderValue,
			event:   "delete podchaperons -A -l multicluster.admiralty.io/parent-cluster-id=" + us,
		},
		"this manager has seen the target": {virtual: v1alpha1.LabelNodeProviderValue, seen: true},
		"the node is of somebody else":     {virtual: "another", stays: true},
		"the target exists": {
			virtual: v1alpha1.LabelNodeProviderValue, exists: []client.Object{target}, stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: translate.VirtualNodeName(key), UID: "1",
				Labels: map[string]string{v1alpha1.LabelNodeProvider: test.virtual},
			}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(test.exists, node)...).Build()
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler{
				options: Options{Client: c, APIReader: c, Recorder: recorder, Source: translate.Source{ClusterID: us}},
				clients: kubernetesfake.NewClientset(), keys: map[string]types.NamespacedName{},
			}
			if test.seen {
				r.remember(key)
			}
			for range 2 {
				if err := r.removeNode(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			if stays := c.Get(t.Context(), client.ObjectKeyFromObject(node), node) == nil; stays != test.stays {
				t.Errorf("the node stays: %t", stays)
			}
			var event string
			if len(recorder.Events) > 0 {
				event = <-recorder.Events
			}
			if (event == "") != (test.event == "") || !strings.Contains(event, test.event) || len(recorder.Events) > 0 {
				t.Errorf("event %q, want one with %q", event, test.event)
			}
		})
	}
}

func TestAVirtualNodeNamesItsTarget(t *testing.T) {
	long := strings.Repeat("long-name.", 25) + "eu" // Of 252 characters.
	c2, shop := types.NamespacedName{Name: "c2"}, types.NamespacedName{Namespace: "shop", Name: "c2"}
	earlier := func(node *corev1.Node) { node.Spec.ProviderID = "" }
	for name, test := range map[string]struct {
		of     types.NamespacedName
		change func(*corev1.Node)
		none   bool
	}{
		"a ClusterTarget":                     {of: c2},
		"a Target":                            {of: shop},
		"a ClusterTarget of 64 characters":    {of: types.NamespacedName{Name: long[:64]}},
		"a ClusterTarget with a long name":    {of: types.NamespacedName{Name: long}},
		"a Target with a long name":           {of: types.NamespacedName{Namespace: "shop", Name: long}},
		"a ClusterTarget, on an earlier node": {of: c2, change: earlier},
		"a Target, on an earlier node":        {of: shop, change: earlier},
		"a node whose provider somebody named": {
			of:     c2,
			change: func(node *corev1.Node) { node.Spec.ProviderID = "cloud://zone/admiralty-c2" },
		},
		"not a node of another kind": {
			of:     c2,
			change: func(node *corev1.Node) { delete(node.Labels, v1alpha1.LabelNodeProvider) }, none: true,
		},
		"not a node without any name": {
			of: c2,
			change: func(node *corev1.Node) {
				node.Spec.ProviderID = ""
				delete(node.Labels, v1alpha1.LabelClusterTargetName)
			},
			none: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{keys: map[string]types.NamespacedName{}}
			node := desiredNode(facts{key: test.of})
			if test.change != nil {
				test.change(node)
			}
			var want []reconcile.Request
			if !test.none {
				want = []reconcile.Request{{NamespacedName: test.of}}
			}
			if diff := cmp.Diff(want, r.targetOf(t.Context(), node)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAKnownNodeIsOfItsTargetWhateverItNames(t *testing.T) {
	node := desiredNode(facts{key: types.NamespacedName{Name: "c3"}})
	r := &Reconciler{keys: map[string]types.NamespacedName{node.Name: c2}}
	if got := r.targetOf(t.Context(), node); len(got) != 1 || got[0].NamespacedName != c2 {
		t.Errorf("it is of %v", got)
	}
}

func TestANodeThatSomebodyDeletesIsCreatedAtOnce(t *testing.T) {
	f := engagedFacts()
	want := desiredNode(f)
	stale := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: want.Name}}
	for name, exists := range map[string][]client.Object{
		"it is gone":                          nil,
		"somebody created it, the cache lags": {want.DeepCopy()},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(exists...).Build()
			stopped := false
			running := &runner{
				stop: func() { stopped = true }, done: make(chan struct{}), handed: make(chan *corev1.Node, 1),
				lastHanded: want.DeepCopy(), seen: true,
			}
			r := &Reconciler{
				options: Options{Client: c, APIReader: c}, clients: kubernetesfake.NewClientset(stale.DeepCopy()),
				runners: map[types.NamespacedName]*runner{f.key: running},
			}
			f.existing = nil
			if _, err := r.ensureRunner(t.Context(), f); err != nil || !stopped {
				t.Errorf("the node controller was stopped: %t; error %v", stopped, err)
			}
			node := &corev1.Node{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(want), node); err != nil || !isVirtual(node) {
				t.Errorf("the node is %v, error %v", node, err)
			}
			leases, err := r.clients.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(leases.Items) > 0 {
				t.Errorf("leases of the deleted node: %v, error %v", leases.Items, err)
			}
		})
	}
}

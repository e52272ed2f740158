package scheduling

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestANewLeaderKnowsWhichProxiesAreBound(t *testing.T) {
	lagging := newPod("p", nil)
	bound := lagging.DeepCopy()
	bound.Spec.NodeName = "n"
	clientset := fake.NewClientset()
	clientset.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pods := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "2"}, Items: []corev1.Pod{*bound}}
		if list, ok := a.(clienttesting.ListActionImpl); ok && list.ListOptions.ResourceVersion == "0" {
			pods.Items = []corev1.Pod{*lagging} // as the watch cache has it
		}
		return true, pods, nil
	})
	informer := newInformers(clientset).Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(stopped) }()
	defer func() { cancel(); <-stopped }()
	if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
		t.Fatal("it has not synced")
	}
	for _, o := range informer.GetStore().List() {
		if pod, ok := o.(*corev1.Pod); !ok || pod.Spec.NodeName == "" {
			t.Errorf("a pod that is bound has no target: %v", o)
		}
	}
	if n := len(informer.GetStore().List()); n != 1 {
		t.Errorf("there are %d pods, want 1", n)
	}
}

func TestOfABoundProxyIsKeptWhatCountsOnItsNode(t *testing.T) {
	pod := important(newPod("p", list("cpu", "1", "memory", "1Gi")))
	pod.Labels = map[string]string{"app": "web"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "e"}}
	pod.Status.Message = "m"
	if _, err := trim(pod); err != nil || pod.Spec.Volumes == nil || pod.ManagedFields != nil {
		t.Fatalf("a proxy that is to be placed: %v, error %v", pod, err)
	}
	whole := pod.DeepCopy()
	pod.Spec.NodeName = "n"
	if _, err := trim(
		pod,
	); err != nil || pod.Spec.Volumes != nil || pod.Spec.Containers[0].Env != nil || pod.Status.Message != "" ||
		pod.Annotations != nil {
		t.Errorf("a bound proxy: %v, error %v", pod, err)
	}
	if pod.Labels["app"] != "web" || *pod.Spec.Priority != 1000 || pod.UID != "p" {
		t.Errorf("a bound proxy lacks something: %v", pod)
	}
	of := func(pod *corev1.Pod) *framework.Resource {
		info := framework.NewNodeInfo(pod)
		return info.Requested
	}
	if got, want := of(pod), of(whole); got.MilliCPU != want.MilliCPU || got.Memory != want.Memory {
		t.Errorf("it counts %v, want %v", got, want)
	}
}

// TestAProxyThatGoesSaysWhenItWasBound has the object of the informer's event.
func TestAProxyThatGoesSaysWhenItWasBound(t *testing.T) {
	for after, want := range map[time.Duration]bool{0: true, time.Minute: false} {
		bound := metav1.Now()
		pod := newPod("p", nil)
		pod.Spec.NodeName, pod.DeletionTimestamp = "n", &metav1.Time{Time: bound.Add(after)}
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound, Message: "m"},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		}}
		if _, err := trim(pod); err != nil || translate.DeletedWhenBound(pod) != want {
			t.Errorf("deleted %s after it was bound: %+v, error %v", after, pod.Status, err)
		}
		if c := pod.Status.Conditions; len(c) != 1 || c[0].Message != "" {
			t.Errorf("it keeps %v", c)
		}
	}
}

func TestOfANamespaceAndATombstoneIsKeptWhatCounts(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "default", Annotations: map[string]string{"a": "b"}, Labels: map[string]string{"l": "m"},
		ManagedFields: []metav1.ManagedFieldsEntry{{}},
	}}
	if _, err := trim(namespace); err != nil || namespace.Annotations != nil || namespace.ManagedFields != nil ||
		namespace.Labels["l"] != "m" {
		t.Errorf("a namespace: %v, error %v", namespace, err)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "default/web"}
	if kept, err := trim(tombstone); err != nil || kept != any(tombstone) {
		t.Errorf("a tombstone: %v, error %v", kept, err)
	}
}

func TestProxiesThatNeedNoTargetAreConcluded(t *testing.T) {
	pending, bound, deleted := newPod("pending", nil), newPod("bound", nil), newPod("deleted", nil)
	bound.Spec.NodeName = "n"
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		happens func(*controllertest.FakeInformer)
		want    map[types.UID]placement.ProxyState
	}{
		"it is there": {func(i *controllertest.FakeInformer) { i.Add(pending) }, nil},
		"it waits":    {func(i *controllertest.FakeInformer) { i.Update(pending, pending) }, nil},
		"it is bound": {
			func(i *controllertest.FakeInformer) { i.Update(pending, bound) },
			map[types.UID]placement.ProxyState{"bound": placement.ProxyBound},
		},
		"it is being deleted": {
			func(i *controllertest.FakeInformer) { i.Update(pending, deleted) },
			map[types.UID]placement.ProxyState{"deleted": placement.ProxyGone},
		},
		"it is gone": {
			func(i *controllertest.FakeInformer) { i.Delete(bound) },
			map[types.UID]placement.ProxyState{"bound": placement.ProxyGone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			informer, got := controllertest.NewFakeInformer(), map[types.UID]placement.ProxyState(nil)
			err := handleProxies(informer, func(pod *corev1.Pod, state placement.ProxyState) {
				got = map[types.UID]placement.ProxyState{pod.UID: state}
			})
			if err != nil {
				t.Fatal(err)
			}
			test.happens(informer)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestANamespaceWakesItsPodsWhenItIsEnabled(t *testing.T) {
	enabled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	}}
	disabled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for name, test := range map[string]struct {
		happens func(*controllertest.FakeInformer)
		want    int
	}{
		"one that is enabled is seen":     {func(i *controllertest.FakeInformer) { i.Add(enabled) }, 1},
		"one that is not enabled is seen": {func(i *controllertest.FakeInformer) { i.Add(disabled) }, 0},
		"it is enabled":                   {func(i *controllertest.FakeInformer) { i.Update(disabled, enabled) }, 1},
		"it is disabled":                  {func(i *controllertest.FakeInformer) { i.Update(enabled, disabled) }, 0},
		"it stays enabled":                {func(i *controllertest.FakeInformer) { i.Update(enabled, enabled) }, 0},
		"it stays disabled":               {func(i *controllertest.FakeInformer) { i.Update(disabled, disabled) }, 0},
		"something else is seen": {func(i *controllertest.FakeInformer) {
			i.Add(newPod("p", nil))
			i.Update(newPod("p", nil), enabled)
			i.Update(disabled, newPod("p", nil))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			informer, got := controllertest.NewFakeInformer(), 0
			if err := handleNamespaces(informer, func(*corev1.Namespace) { got++ }); err != nil {
				t.Fatal(err)
			}
			if test.happens(informer); got != test.want {
				t.Errorf("its pods are woken %d times, want %d", got, test.want)
			}
		})
	}
}

func TestAKindThatIsNotReadHasNoObjects(t *testing.T) {
	informer := newInformers(fake.NewClientset()).Storage().V1().CSINodes().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(stopped) }()
	defer func() { cancel(); <-stopped }()
	if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) || len(informer.GetStore().List()) > 0 {
		t.Errorf("it has %v", informer.GetStore().List())
	}
}

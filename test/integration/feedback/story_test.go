package feedback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// story is one test's namespace, in both clusters, and its target.
type story struct {
	*testing.T

	namespace string
	target    *engage.Target
}

func newStory(t *testing.T) *story {
	t.Helper()
	namespace := shared.source.Namespace(t, nil)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := shared.target.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, namespace: namespace}
	s.target = s.newTarget("c2")
	return s
}

// newTarget returns a target that is not engaged; its node's name is free in other stories.
func (s *story) newTarget(name string) *engage.Target {
	key := types.NamespacedName{Namespace: s.namespace, Name: name}
	return &engage.Target{Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key), Config: shared.target.Config}
}

// engage engages a target until the test ends.
func (s *story) engage(target *engage.Target) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	c, err := cache.New(target.Config, cache.Options{Scheme: shared.scheme, ByObject: map[client.Object]cache.ByObject{
		&v1alpha1.PodChaperon{}: {Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelTargetHash: target.Hash})},
	}})
	s.must(err)
	s.must(c.IndexField(ctx, &v1alpha1.PodChaperon{}, engage.IndexParent, func(o client.Object) []string {
		a := o.GetAnnotations()
		return []string{a[v1alpha1.AnnotationParentNamespace] + "/" + a[v1alpha1.AnnotationParentName]}
	}))
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		s.Fatal("the target's cache does not sync")
	}
	target.Cache, target.APIReader = c, shared.target.Client
	target.Client, err = client.New(target.Config, client.Options{Scheme: shared.scheme, Cache: &client.CacheOptions{Reader: c}})
	s.must(err)
	s.must(shared.registry.Engage(ctx, target))
	s.Cleanup(func() {
		shared.registry.Disengage(target)
		cancel()
		if err := <-stopped; err != nil {
			s.Error(err)
		}
	})
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// pod returns a proxy that does not exist yet.
func (s *story) pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: name,
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName,
			Containers:    []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
}

// place plays the scheduler: it makes the PodChaperon and binds the proxy.
func (s *story) place(proxy *corev1.Pod, target *engage.Target) *v1alpha1.PodChaperon {
	s.Helper()
	c := s.chaperon(proxy, target)
	s.bind(proxy, target.NodeName)
	return c
}

func (s *story) create(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	s.must(shared.source.Client.Create(s.Context(), pod))
	return pod
}

func (s *story) chaperon(proxy *corev1.Pod, target *engage.Target) *v1alpha1.PodChaperon {
	s.Helper()
	c, err := translate.Chaperon(proxy, translate.Source{ClusterID: "source"}, target.Hash)
	s.must(err)
	s.must(shared.target.Client.Create(s.Context(), c))
	return c
}

func (s *story) bind(pod *corev1.Pod, nodeName string) {
	s.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	s.must(shared.source.Client.SubResource("binding").Create(s.Context(), pod, binding))
}

// report plays the target's manager: it writes the delegate's status into the PodChaperon's.
func (s *story) report(c *v1alpha1.PodChaperon, phase corev1.PodPhase, conditions ...corev1.PodCondition) {
	s.Helper()
	before := c.DeepCopy()
	c.Status.Phase, c.Status.Conditions = phase, conditions
	s.must(shared.target.Client.Status().Patch(s.Context(), c, client.MergeFrom(before)))
}

// end plays the target: the delegate of a PodChaperon is gone, and the PodChaperon goes.
func (s *story) end(c *v1alpha1.PodChaperon) {
	s.Helper()
	s.must(client.IgnoreNotFound(shared.target.Client.Delete(s.Context(), c)))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	s.must(client.IgnoreNotFound(shared.target.Client.Patch(s.Context(), c, patch)))
}

func (s *story) delete(cluster *apiserver.Cluster, object client.Object, options ...client.DeleteOption) {
	s.Helper()
	s.must(cluster.Client.Delete(s.Context(), object, options...))
}

// eventually waits until the object in the cluster is as check wants it.
func eventually[T client.Object](s *story, cluster *apiserver.Cluster, object T, check func(T) error) {
	s.Helper()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return check(object)
	})
}

// gone waits until the object with this UID does not exist any more.
func (s *story) gone(cluster *apiserver.Cluster, object client.Object) {
	s.Helper()
	uid := object.GetUID()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		live := object.DeepCopyObject().(client.Object)
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) || err == nil && live.GetUID() != uid {
			return nil
		}
		return errors.Join(err, fmt.Errorf("%T %q is still there", object, object.GetName()))
	})
}

func (s *story) shows(proxy *corev1.Pod, phase corev1.PodPhase) {
	s.Helper()
	eventually(s, shared.source, proxy, func(pod *corev1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("the proxy's phase is %q, want %q", pod.Status.Phase, phase)
		}
		return nil
	})
}

// ending waits until the target's manager is asked to end the delegate, with this grace period.
func (s *story) ending(c *v1alpha1.PodChaperon, grace string) {
	s.Helper()
	eventually(s, shared.target, c, func(c *v1alpha1.PodChaperon) error {
		got, asked := c.Annotations[v1alpha1.AnnotationDeletionGracePeriod]
		if !asked || got != grace || c.DeletionTimestamp != nil {
			return fmt.Errorf("asked %t, grace %q, deletion timestamp %v", asked, got, c.DeletionTimestamp)
		}
		return nil
	})
}

// kept sees that a PodChaperon is not to end.
func (s *story) kept(c *v1alpha1.PodChaperon) {
	s.Helper()
	s.must(shared.target.Client.Get(s.Context(), client.ObjectKeyFromObject(c), c))
	if _, asked := c.Annotations[v1alpha1.AnnotationDeletionGracePeriod]; asked || c.DeletionTimestamp != nil {
		s.Errorf("PodChaperon %q is to end", c.Name)
	}
}

// collected waits until a PodChaperon is being deleted in the foreground.
func (s *story) collected(c *v1alpha1.PodChaperon) {
	s.Helper()
	eventually(s, shared.target, c, func(c *v1alpha1.PodChaperon) error {
		if c.DeletionTimestamp == nil || !slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) {
			return fmt.Errorf("deletion timestamp %v, finalizers %v", c.DeletionTimestamp, c.Finalizers)
		}
		return nil
	})
}

// settled waits until a target's workers have done what was asked of them before: a proxy of its own goes the whole way.
func (s *story) settled(target *engage.Target) {
	s.Helper()
	marker := s.pod("marker")
	marker.Name, marker.GenerateName = "", "marker-"
	s.create(marker)
	c := s.place(marker, target)
	s.report(c, corev1.PodRunning)
	s.shows(marker, corev1.PodRunning)
}

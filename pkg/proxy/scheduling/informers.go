package scheduling

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	podresource "k8s.io/component-helpers/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	objectwatch "github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// newInformers is kube-scheduler's view of the source cluster: proxies that have not finished, and virtual nodes.
// A terminating proxy counts until it is gone, as in kube-scheduler.
func newInformers(clientset kubernetes.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithTransform(trim))
	proxies := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.schedulerName", v1alpha1.SchedulerName),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	).String()
	inform(
		factory,
		&corev1.Pod{},
		coreinformers.NewFilteredPodInformer(clientset, metav1.NamespaceAll, 0, cache.Indexers{},
			func(options *metav1.ListOptions) {
				options.FieldSelector = proxies
				objectwatch.AskForThePresent(options) // In an old list, a pod that is bound has no target yet.
			}),
	)
	nodes := v1alpha1.LabelNodeProvider + "=" + v1alpha1.LabelNodeProviderValue
	inform(factory, &corev1.Node{}, coreinformers.NewFilteredNodeInformer(clientset, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.LabelSelector = nodes }))
	for _, unused := range []runtime.Object{
		&storagev1.CSINode{},
		&resourcev1.DeviceClass{}, &resourcev1.DeviceTaintRule{},
		&resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{},
	} {
		inform(factory, unused, cache.NewSharedIndexInformer(nothing{}, unused, 0, cache.Indexers{}))
	}
	return factory
}

// inform makes the factory use an informer for the object's kind.
func inform(factory informers.SharedInformerFactory, object runtime.Object, informer cache.SharedIndexInformer) {
	_ = informer.SetTransform(trim) // fails only once the informer has started
	factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
}

// trim drops the fields that nobody reads, because there can be ten thousand bound proxies. Those are managed fields,
// annotations of namespaces, and all of a bound proxy that does not count on its node.
func trim(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Namespace:
		o.Annotations = nil
	case *corev1.Pod:
		if o.Spec.NodeName != "" {
			slim(o)
			break
		}
		translate.MoveAdded(o)
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // tombstones pass as they are
	}
	accessor.SetManagedFields(nil)
	return object, nil
}

// slim keeps only what kube-scheduler's cache and plugins, and ours, read of pods on nodes: labels, affinity, priority,
// requests, and when the pod was bound.
func slim(pod *corev1.Pod) {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	pod.Annotations, pod.OwnerReferences = nil, nil
	pod.Spec = corev1.PodSpec{
		NodeName:      pod.Spec.NodeName,
		SchedulerName: pod.Spec.SchedulerName,
		Priority:      pod.Spec.Priority,
		Affinity:      pod.Spec.Affinity,
		Containers:    []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}},
	}
	status := corev1.PodStatus{Phase: pod.Status.Phase}
	if c := translate.PodCondition(pod.Status.Conditions, corev1.PodScheduled); c != nil {
		status.Conditions = []corev1.PodCondition{
			{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime},
		}
	}
	pod.Status = status
}

// nothing is a cluster without objects of a kind.
type nothing struct{}

// List returns an empty list.
func (nothing) List(metav1.ListOptions) (runtime.Object, error) { return &metav1.List{}, nil }

// Watch never sees anything.
func (nothing) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// IsWatchListSemanticsUnSupported tells client-go to list before it watches.
func (nothing) IsWatchListSemanticsUnSupported() bool { return true }

// conclusion returns what became of a proxy that needs no target any more.
func conclusion(pod *corev1.Pod) (state placement.ProxyState, ended bool) {
	switch {
	case pod.Spec.NodeName != "":
		return placement.ProxyBound, true
	case !pod.DeletionTimestamp.IsZero():
		return placement.ProxyGone, true
	default:
		return 0, false
	}
}

// handleProxies calls concluded with each proxy that needs no target any more.
func handleProxies(informer cache.SharedIndexInformer, concluded func(*corev1.Pod, placement.ProxyState)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				if state, ended := conclusion(pod); ended {
					concluded(pod, state)
				}
			}
		},
		DeleteFunc: func(object any) {
			if pod, ok := objectwatch.Unwrap[*corev1.Pod](object); ok {
				concluded(pod, placement.ProxyGone)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("handling events of proxies: %w", err)
	}
	return nil
}

// handleNamespaces calls enabledNow with each namespace that is enabled and was not, as far as is known.
func handleNamespaces(informer cache.SharedIndexInformer, enabledNow func(*corev1.Namespace)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if namespace, ok := object.(*corev1.Namespace); ok && enabled(namespace) {
				enabledNow(namespace)
			}
		},
		UpdateFunc: func(before, after any) {
			was, wasOK := before.(*corev1.Namespace)
			is, isOK := after.(*corev1.Namespace)
			if wasOK && isOK && !enabled(was) && enabled(is) {
				enabledNow(is)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("handling events of namespaces: %w", err)
	}
	return nil
}

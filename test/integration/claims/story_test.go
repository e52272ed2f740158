package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// story is one test's namespace, in all clusters, and its targets.
type story struct {
	*testing.T

	namespace  string
	c2, c3     *engage.Target
	inC2, inC3 engagement
}

// engagement of a target can be ended.
type engagement struct{ end func() }

// newStory engages two targets.
func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, namespace: shared.source.Namespace(t, nil)}
	for _, cluster := range []*apiserver.Cluster{shared.c2, shared.c3} {
		s.must(cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	}
	s.c2, s.inC2 = s.engage("c2", shared.users[shared.c2])
	s.c3, s.inC3 = s.engage("c3", shared.users[shared.c3])
	return s
}

// engage engages a target until the test ends, or until it is disengaged.
func (s *story) engage(name string, config *rest.Config) (*engage.Target, engagement) {
	s.Helper()
	c, err := client.New(config, client.Options{})
	s.must(err)
	key := types.NamespacedName{Namespace: s.namespace, Name: name}
	target := &engage.Target{
		Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key), Config: config, Client: c, APIReader: c,
		ClusterID: shared.ids[config.Host],
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	s.must(shared.registry.Engage(ctx, target))
	end := func() {
		shared.registry.Disengage(target)
		cancel()
	}
	s.Cleanup(end)
	return target, engagement{end}
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// called is how the source calls a target.
func (s *story) called(name string) string { return s.namespace + "/" + name }

// pod returns a pod with claims.
func (s *story) pod(names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db-0"}}
	for _, name := range names {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return pod
}

type change func(*corev1.PersistentVolumeClaim)

func followed(pvc *corev1.PersistentVolumeClaim) {
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, v1alpha1.AnnotationFollow, "")
}

func ofClass(name string) change {
	return func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.StorageClassName = &name }
}

// create makes a claim of 1Gi.
func (s *story) create(cluster *apiserver.Cluster, name string, changes ...change) *corev1.PersistentVolumeClaim {
	s.Helper()
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, change := range changes {
		change(pvc)
	}
	s.must(cluster.Client.Create(s.Context(), pvc))
	return pvc
}

// get returns nil if there is no such claim.
func (s *story) get(cluster *apiserver.Cluster, name string) *corev1.PersistentVolumeClaim {
	s.Helper()
	pvc := &corev1.PersistentVolumeClaim{}
	err := cluster.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, pvc)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return pvc
}

// delete deletes a claim, and plays the controller that takes off the finalizer.
func (s *story) delete(cluster *apiserver.Cluster, pvc *corev1.PersistentVolumeClaim) {
	s.Helper()
	s.must(client.IgnoreNotFound(cluster.Client.Delete(s.Context(), pvc)))
	s.release(cluster, pvc)
}

func (s *story) release(cluster *apiserver.Cluster, pvc *corev1.PersistentVolumeClaim) {
	s.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	s.must(client.IgnoreNotFound(cluster.Client.Patch(s.Context(), pvc.DeepCopy(), patch)))
}

// bound plays the controller that binds claims.
func (s *story) bound(cluster *apiserver.Cluster, pvc *corev1.PersistentVolumeClaim) {
	s.Helper()
	pvc = s.get(cluster, pvc.Name)
	pvc.Spec.VolumeName = "pv-of-" + s.namespace
	s.must(cluster.Client.Update(s.Context(), pvc))
	pvc.Status.Phase = corev1.ClaimBound
	pvc.Status.Capacity = pvc.Spec.Resources.Requests
	s.must(cluster.Client.Status().Update(s.Context(), pvc))
}

func (s *story) resize(pvc *corev1.PersistentVolumeClaim, size string) {
	s.Helper()
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	s.must(shared.source.Client.Patch(s.Context(), pvc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// isOf waits until a claim asks for this much.
func (s *story) isOf(cluster *apiserver.Cluster, name, size string) {
	s.Helper()
	apiserver.Eventually(s.T, func(context.Context) error {
		if got := s.get(cluster, name).Spec.Resources.Requests.Storage().String(); got != size {
			return fmt.Errorf("the claim asks for %s, want %s", got, size)
		}
		return nil
	})
}

func (s *story) hasEvent(pvc *corev1.PersistentVolumeClaim, reason string) bool {
	s.Helper()
	recorded := &eventsv1.EventList{}
	s.must(shared.source.Client.List(s.Context(), recorded, client.InNamespace(s.namespace)))
	return slices.ContainsFunc(recorded.Items, func(e eventsv1.Event) bool { return e.Reason == reason && e.Regarding.UID == pvc.UID })
}

// annotate sets an annotation of a claim in the source, or removes it if the value is empty.
func (s *story) annotate(pvc *corev1.PersistentVolumeClaim, key, value string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)
	}
	s.must(shared.source.Client.Patch(s.Context(), pvc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// objects waits until the answer about a pod in a target is this; empty means that the pod may go there.
func (s *story) objects(pod *corev1.Pod, target *engage.Target, want string) {
	s.Helper()
	apiserver.Eventually(s.T, func(context.Context) error {
		if got := shared.claims.Objection(pod, target); got != want {
			return fmt.Errorf("target %s: %q, want %q", target.Key.Name, got, want)
		}
		return nil
	})
}

func (s *story) bring(pod *corev1.Pod, target *engage.Target) {
	s.Helper()
	s.must(shared.claims.Bring(s.Context(), pod, target))
}

// refused brings the pod in vain.
func (s *story) refused(pod *corev1.Pod, target *engage.Target, reason string) {
	s.Helper()
	err := shared.claims.Bring(s.Context(), pod, target)
	var refused *needs.RefusedError
	if !errors.As(err, &refused) || refused.Reason != reason {
		s.Errorf("error %v, want a refusal: %s", err, reason)
	}
}

func (s *story) followedTo(name, want string) {
	s.Helper()
	if got := s.get(shared.source, name).Annotations[v1alpha1.AnnotationFollowedTo]; got != want {
		s.Errorf("claim %q is followed to %q, want %q", name, got, want)
	}
}

// goes waits until a claim is being deleted.
func (s *story) goes(cluster *apiserver.Cluster, pvc *corev1.PersistentVolumeClaim) {
	s.Helper()
	apiserver.Eventually(s.T, func(context.Context) error {
		if got := s.get(cluster, pvc.Name); got != nil && got.UID == pvc.UID && got.DeletionTimestamp == nil {
			return fmt.Errorf("claim %q is there", pvc.Name)
		}
		return nil
	})
}

func (s *story) stays(cluster *apiserver.Cluster, pvc *corev1.PersistentVolumeClaim) {
	s.Helper()
	if got := s.get(cluster, pvc.Name); got == nil || got.UID != pvc.UID || got.DeletionTimestamp != nil {
		s.Errorf("claim %q in %s is gone, or goes", pvc.Name, cluster.Name)
	}
}

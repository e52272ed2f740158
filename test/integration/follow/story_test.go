package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// story is one test's namespace, in both clusters, and its target, which is engaged.
type story struct {
	*testing.T

	namespace string
	target    *engage.Target
	disengage func()
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, namespace: shared.source.Namespace(t, nil)}
	s.create(shared.target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.bindSource(user)
	s.engage()
	return s
}

// bindSource gives somebody a source's rights in the target, and waits until the policy holds them.
func (s *story) bindSource(user string) {
	s.Helper()
	s.create(shared.target, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: release + "-source"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	as, err := client.New(impersonate(user), client.Options{Scheme: shared.scheme})
	s.must(err)
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		err := as.Create(ctx, s.configMap("probe", "a", "b"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "must have the annotation") {
			return fmt.Errorf("the policy does not hold: %w", err)
		}
		return nil
	})
}

func impersonate(user string) *rest.Config {
	config := rest.CopyConfig(shared.target.Config)
	config.Impersonate.UserName = user
	return config
}

// engage engages the story's target until the test ends, or disengage is called.
func (s *story) engage() {
	s.Helper()
	key := types.NamespacedName{Namespace: s.namespace, Name: "c2"}
	s.target = newTarget(s, key, shared.identity)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	s.must(shared.registry.Engage(ctx, s.target))
	target := s.target
	s.disengage = func() {
		shared.registry.Disengage(target)
		cancel()
	}
	s.Cleanup(s.disengage)
}

func newTarget(s *story, key types.NamespacedName, identity *rest.Config) *engage.Target {
	s.Helper()
	c, err := client.New(identity, client.Options{Scheme: shared.scheme})
	s.must(err)
	return &engage.Target{Key: key, NodeName: translate.VirtualNodeName(key), Config: identity, Client: c, APIReader: c}
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *story) create(cluster *apiserver.Cluster, object client.Object) {
	s.Helper()
	s.must(cluster.Client.Create(s.Context(), object))
}

func (s *story) update(object client.Object) {
	s.Helper()
	s.must(shared.source.Client.Update(s.Context(), object))
}

func (s *story) configMap(name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string]string{key: value}}
}

func (s *story) secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
}

// pod returns a proxy that does not exist yet.
func (s *story) pod(name string, refer ...func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: name,
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	for _, r := range refer {
		r(&pod.Spec)
	}
	return pod
}

func toSecret(name string, optional bool) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Containers[0].EnvFrom = append(spec.Containers[0].EnvFrom, corev1.EnvFromSource{
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional},
		})
	}
}

func toConfigMap(name string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Containers[0].EnvFrom = append(spec.Containers[0].EnvFrom, corev1.EnvFromSource{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
}

func asAccount(name string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) { spec.ServiceAccountName = name }
}

// bring does as scheduling does before it creates a PodChaperon.
func (s *story) bring(pod *corev1.Pod) {
	s.Helper()
	s.must(shared.follower.Bring(s.Context(), pod, s.target))
}

// place has a proxy brought and bound.
func (s *story) place(pod *corev1.Pod) {
	s.Helper()
	s.create(shared.source, pod)
	s.bring(pod)
	s.bind(pod)
}

func (s *story) bind(pod *corev1.Pod) {
	s.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: s.target.NodeName}}
	s.must(shared.source.Client.SubResource("binding").Create(s.Context(), pod, binding))
}

// known waits until the follower has seen that pods are bound: what another needs, which was bound later, comes to the target.
func (s *story) known() {
	s.Helper()
	marker := s.pod("bound", toSecret("bound", true))
	s.create(shared.source, marker)
	s.bind(marker)
	s.create(shared.source, s.secret("bound", "seen"))
	s.hasPassword("bound", "seen")
}

// seen waits until the follower has seen all that happened to Secrets: another, made later, is not missing any more.
func (s *story) seen() {
	s.Helper()
	marker := s.pod("seen", toSecret("seen", false))
	if err := shared.follower.Bring(s.Context(), marker, s.target); !errors.As(err, new(*needs.MissingError)) {
		s.Fatalf("the marker: %v", err)
	}
	s.create(shared.source, s.secret("seen", ""))
	apiserver.Eventually(s.T, func(context.Context) error { return shared.follower.Missing(marker) })
}

// eventuallyMissing waits until the follower knows that what the pod needs does not exist.
func (s *story) eventuallyMissing(f *follow.Follower, pod *corev1.Pod) {
	s.Helper()
	apiserver.Eventually(s.T, func(context.Context) error {
		if !errors.As(f.Missing(pod), new(*needs.MissingError)) {
			return errors.New("nothing is missing")
		}
		return nil
	})
}

// there reads an object of the target.
func there[T client.Object](s *story, object T) T {
	s.Helper()
	s.must(shared.target.Client.Get(s.Context(), client.ObjectKeyFromObject(object), object))
	return object
}

// hasPassword waits until the Secret in the target has this password.
func (s *story) hasPassword(name, want string) {
	s.Helper()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		found := s.secret(name, "")
		if err := shared.target.Client.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		if got := string(found.Data["password"]); got != want {
			return fmt.Errorf("the password is %q, want %q", got, want)
		}
		return nil
	})
}

// refused expects that a target does not take a pod, and says why.
func (s *story) refused(err error, text string) {
	s.Helper()
	if !errors.As(err, new(*needs.RefusedError)) || !strings.Contains(err.Error(), text) {
		s.Errorf("got %v, want a refusal with %q", err, text)
	}
}

func (s *story) expect(what string, want, got any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

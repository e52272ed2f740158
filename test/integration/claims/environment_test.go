package claims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	// user is the user name of the manager in the source, and of the source in targets.
	user              = "multicluster-scheduler"
	sourceID          = "source-id"
	reasonNotExpanded = claims.ReasonNotExpanded
)

// The tests share a source with one manager, and two target clusters.
var (
	source, cluster2, cluster3 *env.Cluster
	logins                     = map[*env.Cluster]*rest.Config{} // of user
	follower                   *claims.Claims
	registry                   *engage.Registry
	appeared                   env.Journal // namespaces in which something appeared
	away                       env.Journal // targets that were connected, by their namespaces, and are not engaged
	inSource                   hook        // of the manager's requests
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "source", "c2", "c3")
	source, cluster2, cluster3 = clusters[0], clusters[1], clusters[2]
	roles := env.Render(t, env.Release, "--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false")
	for _, cluster := range clusters {
		env.Create(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
		logins[cluster] = cluster.User(t, user)
	}
	source.Install(t, roles, user)
	createClasses(t, source, "gp3", "fast", "fixed-there", "only-here", "waits")
	for _, cluster := range clusters[1:] {
		cluster.Install(t, roles, "")
		cluster.BindSource(t, user)
		createClasses(t, cluster, "standard", "fast", "fixed-there", "waits")
	}
	follower, registry = newLeader(t)
}

// newLeader runs a manager, which remembers nothing of those before it. It returns what the manager knows of claims,
// and the registry of its targets.
func newLeader(t env.T) (knows *claims.Claims, targets *engage.Registry) {
	t.Helper()
	env.RunManager(t, env.Intercept(logins[source], inSource.see), func(mgr ctrl.Manager) (err error) {
		knows, err = claims.New(claims.Options{
			Config: mgr.GetConfig(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			Source: translate.Source{ClusterID: sourceID, ClusterName: "c1"}, Appeared: appeared.Add,
			Clock: clock.RealClock{}, Recorder: mgr.GetEventRecorder("claims"), Logger: mgr.GetLogger(),
			Exists: func(context.Context, string) bool { return false }, // All targets are engaged.
			Connected: func(_ context.Context, namespace string, _ time.Time) ([]string, error) {
				return away.With(namespace), nil
			},
		})
		if err != nil {
			return err
		}
		targets = engage.NewRegistry(knows)
		return knows.Register(t.Context(), mgr)
	})
	return knows, targets
}

// createClasses creates storage classes. The first is the default. In targets "fixed-there" does not let claims grow.
// All but "waits" make volumes at once.
func createClasses(t env.T, cluster *env.Cluster, names ...string) {
	t.Helper()
	for i, name := range names {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks"}
		class.AllowVolumeExpansion = new(name != "fixed-there" || cluster == source)
		if name == "waits" {
			class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		}
		if i == 0 {
			class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		env.Create(t, cluster, class)
	}
}

// engaged engages the targets c2 and c3 of a new namespace until the test ends.
func engaged(t *testing.T) (namespace string, c2, c3 *env.Target) {
	t.Helper()
	namespace = env.Namespace(t, nil, source, cluster2, cluster3)
	return namespace, engageAs(t, namespace, "c2", cluster2), engageAs(t, namespace, "c3", cluster3)
}

// engageAs engages a target of the name given.
func engageAs(t *testing.T, namespace, name string, cluster *env.Cluster) *env.Target {
	t.Helper()
	return engageWith(t, namespace, name, cluster, logins[cluster])
}

// engageWith engages a target with the login given.
func engageWith(t *testing.T, namespace, name string, cluster *env.Cluster, login *rest.Config) *env.Target {
	t.Helper()
	target := newTarget(namespace, name, cluster, login)
	target.Engage(t, registry)
	return target
}

// newTarget returns a target that is not engaged.
func newTarget(namespace, name string, cluster *env.Cluster, login *rest.Config) *env.Target {
	target := env.NewTarget(cluster, types.NamespacedName{Namespace: namespace, Name: name})
	target.Login = login
	target.Customize = func(e *engage.Target) { e.ClusterID = cluster.Name + "-id" }
	return target
}

// ensure ensures the claims of a pod in a target, as scheduling does before it creates a PodChaperon.
func ensure(ctx context.Context, pod *corev1.Pod, target *env.Target) error {
	return follower.Ensure(ctx, pod, target.Target)
}

func mustEnsure(t *testing.T, pod *corev1.Pod, target *env.Target) {
	t.Helper()
	env.Must(t, ensure(t.Context(), pod, target))
}

// objection returns the reason why a pod may not go to a target because of its claims. It is empty if the pod may go.
func objection(pod *corev1.Pod, target *env.Target) string {
	return follower.Objection(pod, target.Target, nil)
}

// waitForObjection waits until there is this objection, or none if want is empty.
func waitForObjection(t *testing.T, pod *corev1.Pod, target *env.Target, want string) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		if got := objection(pod, target); got != want {
			return fmt.Errorf("the objection to target %s is %q, want %q", target.Key.Name, got, want)
		}
		return nil
	})
}

// expectRefusal checks that the claims of a pod are refused in a target for a reason.
func expectRefusal(t *testing.T, pod *corev1.Pod, target *env.Target, reason string) {
	t.Helper()
	err := ensure(t.Context(), pod, target)
	var refused *needs.RefusedError
	if !errors.As(err, &refused) || refused.Reason != reason {
		t.Errorf("error %v, want a refusal: %s", err, reason)
	}
}

// podWith returns a pod with claims.
func podWith(namespace string, names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, "db-0")}
	for _, name := range names {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim},
		})
	}
	return pod
}

type change func(*corev1.PersistentVolumeClaim)

func followed(claim *corev1.PersistentVolumeClaim) {
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1alpha1.AnnotationFollow, "")
}

func ofClass(name string) change {
	return func(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = &name }
}

// create creates a claim of 1Gi.
func create(t *testing.T, c *env.Cluster, namespace, name string, changes ...change) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: env.Meta(namespace, name)}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, change := range changes {
		change(claim)
	}
	env.Create(t, c, claim)
	return claim
}

// createFollowed creates a claim in the source that is to be followed.
func createFollowed(t *testing.T, namespace, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	return create(t, source, namespace, name, followed, ofClass("fast"))
}

// copied has the claim "data" copied to a target. It returns a pod with the claim, the claim and the copy.
func copied(t *testing.T, target *env.Target) (pod *corev1.Pod, original, made *corev1.PersistentVolumeClaim) {
	t.Helper()
	pod = podWith(target.Key.Namespace, "data")
	original = createFollowed(t, target.Key.Namespace, "data")
	waitForObjection(t, pod, target, "")
	mustEnsure(t, pod, target)
	return pod, original, find(t, target, "data")
}

// find returns the claim of a name in a target, or nil if there is none.
func find(t *testing.T, target *env.Target, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: env.Meta(target.Key.Namespace, name)}
	if !env.Exists(t, target.Cluster, claim) {
		return nil
	}
	return claim
}

// remove deletes a claim, and plays the controller that takes off the finalizer.
func remove(t *testing.T, c *env.Cluster, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	env.Must(t, client.IgnoreNotFound(c.Client.Delete(t.Context(), claim)))
	env.RemoveFinalizers(t, c, claim)
}

// annotate sets an annotation of a claim in the source, or removes it if the value is empty.
func annotate(t *testing.T, claim *corev1.PersistentVolumeClaim, key, value string) {
	t.Helper()
	env.Change(t, source, claim.DeepCopy(), func(claim *corev1.PersistentVolumeClaim) {
		if value == "" {
			delete(claim.Annotations, key)
		} else {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, key, value)
		}
	})
}

// replace replaces a claim in the source as a whole, as a tool does that knows no annotations but follow.
func replace(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	replaced := env.Get(t, source, claim.DeepCopy())
	replaced.Annotations = map[string]string{v1alpha1.AnnotationFollow: ""}
	env.Must(t, source.Client.Update(t.Context(), replaced))
}

// giveUp says that the copy of a claim is nowhere.
func giveUp(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	env.Change(t, source, claim.DeepCopy(), func(claim *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1alpha1.AnnotationFollowedTo, "")
	})
}

// expectFollowedTo checks in which target the source says that the copy of a claim is, or in none if want is empty.
func expectFollowedTo(t *testing.T, original *corev1.PersistentVolumeClaim, want string) {
	t.Helper()
	got := env.Get(t, source, original.DeepCopy()).Annotations[v1alpha1.AnnotationFollowedTo]
	env.ExpectEqual(t, "target to which claim "+original.Name+" is followed", want, got)
}

// expectNone checks that a target has no claim of a name.
func expectNone(t *testing.T, target *env.Target, name string) {
	t.Helper()
	if find(t, target, name) != nil {
		t.Errorf("there is a claim %q in %s", name, target.Cluster.Name)
	}
}

// expectKept checks that a claim is not deleted.
func expectKept(t *testing.T, c *env.Cluster, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	got := claim.DeepCopy()
	if !env.Exists(t, c, got) || got.UID != claim.UID || got.DeletionTimestamp != nil {
		t.Errorf("claim %q in %s is gone, or going", claim.Name, c.Name)
	}
}

// waitForDeletion waits until a claim is being deleted.
func waitForDeletion(t *testing.T, c *env.Cluster, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		got := claim.DeepCopy()
		if env.Exists(t, c, got) && got.UID == claim.UID && got.DeletionTimestamp == nil {
			return fmt.Errorf("claim %q is not being deleted", claim.Name)
		}
		return nil
	})
}

// waitForWorkers has a claim copied to a target and deleted. By then, the workers have done all earlier work.
func waitForWorkers(t *testing.T, target *env.Target) {
	t.Helper()
	pod := podWith(target.Key.Namespace, "marker")
	original := createFollowed(t, target.Key.Namespace, "marker")
	waitForObjection(t, pod, target, "")
	mustEnsure(t, pod, target)
	made := find(t, target, "marker")
	remove(t, source, original)
	waitForDeletion(t, target.Cluster, made)
	env.RemoveFinalizers(t, target.Cluster, made)
}

// hook sees the requests of a login before they are sent, and may answer them. The zero value lets all pass.
type hook struct {
	answer atomic.Pointer[func(*http.Request) *http.Response]
}

func (h *hook) see(r *http.Request) *http.Response {
	if answer := h.answer.Load(); answer != nil {
		return (*answer)(r)
	}
	return nil
}

// on calls answer with the requests of a method for a claim, until the test ends. Creations name no claim.
func (h *hook) on(t *testing.T, method, namespace, name string, answer func(*http.Request) *http.Response) {
	t.Helper()
	path := strings.TrimSuffix("/api/v1/namespaces/"+namespace+"/persistentvolumeclaims/"+name, "/")
	filtered := func(r *http.Request) *http.Response {
		if r.Method != method || r.URL.Path != path {
			return nil
		}
		return answer(r)
	}
	h.answer.Store(&filtered)
	t.Cleanup(h.off)
}

func (h *hook) off() { h.answer.Store(nil) }

// notFound is the answer of a server that is no API server.
func notFound(r *http.Request) *http.Response {
	header := http.Header{"Content-Type": {"text/plain"}}
	return &http.Response{StatusCode: http.StatusNotFound, Header: header, Body: http.NoBody, Request: r}
}

// tooLate is the answer of an API server that waits for a webhook.
func tooLate(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusGatewayTimeout, Body: http.NoBody, Request: r}
}

// forbidden is the answer of an API server that took the right away.
func forbidden(r *http.Request) *http.Response {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"claims are forbidden",` +
		`"reason":"Forbidden","code":403}`
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

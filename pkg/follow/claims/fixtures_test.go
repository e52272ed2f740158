package claims

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// world is Claims of the namespace shop. The API servers of the source and of the targets c2 and c3 are fakes.
type world struct {
	*Claims
	t        *testing.T
	c2, c3   *cluster
	registry *engage.Registry
	// stored has the fakes, by the names of their clusters. What a test reads and writes there is no request.
	stored map[string]client.WithWatch
	// before is what happens before a request is carried out, by cluster and verb. An error is the request's answer.
	before map[string]func() error
	// connected, or unknown, is what is known of targets that were connected since a time.
	connected []string
	unknown   error
	since     time.Time
	// changes are the requests that were to change something, in order.
	changes []string
}

const sourceName = "source"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, registry: engage.NewRegistry(),
		stored: map[string]client.WithWatch{}, before: map[string]func() error{},
	}
	w.Claims = &Claims{options: Options{
		Source: translate.Source{ClusterID: sourceName}, Clock: testingclock.NewFakeClock(noon()),
		Recorder: &events.FakeRecorder{}, // It drops all events.
		Exists:   func(context.Context, string) bool { return true },
		Appeared: func(string) {},
		Connected: func(_ context.Context, _ string, since time.Time) ([]string, error) {
			w.since = since
			return w.connected, w.unknown
		},
	}}
	w.source = w.newCluster(sourceName)
	w.c2, w.c3 = w.engage("c2"), w.engage("c3")
	return w
}

func (w *world) engage(name string) *cluster {
	w.t.Helper()
	made := w.newCluster(name)
	made.location = location{name, "id-of-" + name}
	made.target = &engage.Target{Key: types.NamespacedName{Name: name}, NodeName: name, ClusterID: made.clusterID}
	made.target.APIReader, made.target.Client = made.client, made.client
	made.workers = w.newWorkers(made)
	made.writer = writer.NewWriter(made.client, made.client, w.options.Source)
	if err := w.registry.Engage(w.t.Context(), made.target); err != nil {
		w.t.Fatal(err)
	}
	w.targets.Set(w.t.Context(), made.target, made)
	return made
}

// newCluster makes a cluster with the storage class "fast", in which no claims are watched.
func (w *world) newCluster(name string) *cluster {
	w.t.Helper()
	classes := watch.NewStore(watch.StoreOptions[*storagev1.StorageClass, class]{EntryOf: classOf})
	fast := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	if err := classes.Replace([]any{fast}, ""); err != nil {
		w.t.Fatal(err)
	}
	w.stored[name] = fake.NewClientBuilder().WithScheme(w.scheme()).Build()
	return &cluster{
		sourceID: sourceName, client: interceptor.NewClient(w.stored[name], w.funcs(name)),
		clock: w.options.Clock, life: w.t.Context(), claims: map[string]*watched{}, classes: classes,
		idle: sets.New[types.NamespacedName](),
	}
}

// scheme knows what API servers have.
func (w *world) scheme() *runtime.Scheme {
	w.t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		w.t.Fatal(err)
	}
	return scheme
}

// request notes a request, and returns its answer if a test gives one.
func (w *world) request(cluster, verb string) error {
	name := cluster + " " + verb
	if verb != "get" {
		w.changes = append(w.changes, name)
	}
	if do := w.before[name]; do != nil {
		return do()
	}
	return nil
}

func (w *world) funcs(cluster string) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			return errors.Join(w.request(cluster, "get"), c.Get(ctx, key, o, options...))
		},
		List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if do := w.before[cluster+" list"]; do != nil {
				return do()
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if o.GetNamespace() == "" {
				return nil // The writer asks for its user name.
			}
			if err := w.request(cluster, "create"); err != nil {
				return err
			}
			o.SetUID("9")
			o.SetCreationTimestamp(metav1.NewTime(noon()))
			return c.Create(ctx, o, options...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			if err := w.request(cluster, "patch"); err != nil {
				return err
			}
			var document struct{ Metadata struct{ UID *types.UID } }
			data, err := patch.Data(o)
			if err := errors.Join(err, json.Unmarshal(data, &document)); err != nil {
				return err
			}
			if err := checkUID(ctx, c, o, document.Metadata.UID); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := w.request(cluster, "delete"); err != nil {
				return err
			}
			exactly := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
			if exactly != nil {
				if err := checkUID(ctx, c, o, exactly.UID); err != nil {
					return err
				}
			}
			return c.Delete(ctx, o, options...)
		},
	}
}

// checkUID does what fakes do not: it answers Conflict if the object that is stored has another UID.
func checkUID(ctx context.Context, c client.Client, o client.Object, want *types.UID) error {
	now := &corev1.PersistentVolumeClaim{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
		return err
	}
	if want != nil && now.UID != *want {
		return apierrors.NewConflict(resourceOfClaims, o.GetName(), errors.New("another UID"))
	}
	return nil
}

var resourceOfClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}

// store puts claims into a cluster.
func (w *world) store(cluster string, claims ...*corev1.PersistentVolumeClaim) {
	w.t.Helper()
	for _, pvc := range claims {
		if err := w.stored[cluster].Create(w.t.Context(), pvc.DeepCopy()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// find returns the claim "data" of a cluster, or nil.
func (w *world) find(cluster string) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	pvc := &corev1.PersistentVolumeClaim{}
	err := w.stored[cluster].Get(w.t.Context(), keyOfData, pvc)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return pvc
}

// change changes the claim "data" of a cluster before a request.
func (w *world) change(cluster string, change func(*corev1.PersistentVolumeClaim)) func() error {
	w.t.Helper()
	return func() error {
		pvc := w.find(cluster)
		change(pvc)
		return w.stored[cluster].Update(w.t.Context(), pvc)
	}
}

// replace deletes the claim "data" of a cluster, and creates another one of that name, before a request.
func (w *world) replace(cluster string) func() error {
	w.t.Helper()
	return func() error {
		other := w.find(cluster)
		err := w.stored[cluster].Delete(w.t.Context(), other)
		other.UID, other.ResourceVersion = "other", ""
		return errors.Join(err, w.stored[cluster].Create(w.t.Context(), other))
	}
}

// isAt says where the annotations of the source's claim "data" say that it is.
func (w *world) isAt() location {
	w.t.Helper()
	return followedTo(w.find(sourceName))
}

var keyOfData = types.NamespacedName{Namespace: "shop", Name: "data"}

// followedClaim returns the claim "data" of 1Gi, whose copy is at a location, or nowhere if that is empty.
func followedClaim(at location) *corev1.PersistentVolumeClaim {
	pvc := data()
	pvc.UID = "1"
	pvc.Annotations = map[string]string{v1alpha1.AnnotationFollow: ""}
	if at.name != "" {
		pvc.Annotations[v1alpha1.AnnotationFollowedTo] = at.name
		pvc.Annotations[v1alpha1.AnnotationFollowedToClusterID] = at.clusterID
	}
	pvc.Spec.StorageClassName = ptr.To("fast")
	pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return pvc
}

// givenUpClaim returns the claim "data", which says that its copy is nowhere.
func givenUpClaim() *corev1.PersistentVolumeClaim {
	pvc := followedClaim(location{})
	pvc.Annotations[v1alpha1.AnnotationFollowedTo] = ""
	return pvc
}

// copyOfData returns the copy of the claim "data", with a volume of 1Gi.
func copyOfData() *corev1.PersistentVolumeClaim {
	made := followedClaim(location{})
	made.UID, made.CreationTimestamp = "9", metav1.NewTime(noon())
	made.Labels = map[string]string{v1alpha1.LabelParentUID: "1", v1alpha1.LabelParentClusterID: sourceName}
	made.Annotations = map[string]string{v1alpha1.AnnotationNeededAt: noon().Format(time.RFC3339)}
	made.Status.Phase = corev1.ClaimBound
	return made
}

// podWithData returns a pod that refers to the claim "data".
func podWithData() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}},
	}
}

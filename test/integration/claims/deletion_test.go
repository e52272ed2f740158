package claims

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestOnlyDeletingTheClaimDeletesItsCopy(t *testing.T) {
	namespace, c2, _ := engaged(t)
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	same := create(t, source, namespace, "own", ofClass("fast"))
	own := create(t, c2.Cluster, namespace, "own", ofClass("fast"))
	waitForObjection(t, pod, c2, "")
	mustEnsure(t, pod, c2)
	made := find(t, c2, "data")
	waitForObjection(t, podWith(namespace, "own"), c2, "")

	env.Delete(t, source, original) // A finalizer holds it.
	waitForObjection(t, pod, c2, `claim "data" is being deleted`)
	waitForWorkers(t, c2)
	expectKept(t, c2.Cluster, made)
	env.RemoveFinalizers(t, source, original)
	waitForDeletion(t, c2.Cluster, made)

	// Another claim of that name does not get the data of the first.
	createFollowed(t, namespace, "data")
	waitForObjection(t, pod, c2, `claim "data" is being deleted there`)
	expectRefusal(t, pod, c2, "is being deleted there")
	env.RemoveFinalizers(t, c2.Cluster, made)
	waitForObjection(t, pod, c2, "")
	mustEnsure(t, pod, c2)

	remove(t, source, same)
	waitForObjection(t, podWith(namespace, "own"), c2, "")
	waitForWorkers(t, c2)
	expectKept(t, c2.Cluster, own)
}

func TestACopyIsDeletedOnlyWhenAnAPIServerSaysThatItsClaimIsGone(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod, original, made := copied(t, c2)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String()) // The copy is known from now on.

	var asked atomic.Int32
	inSource.on(t, http.MethodGet, namespace, "data", func(r *http.Request) *http.Response {
		asked.Add(1)
		return notFound(r)
	})
	remove(t, source, original)
	env.Eventually(t, func(context.Context) error {
		if asked.Load() < 3 {
			return errors.New("the source is not asked")
		}
		return nil
	})
	expectKept(t, c2.Cluster, made)
	inSource.off()
	waitForDeletion(t, c2.Cluster, made)
}

func TestACopyThatIsTakenOverAtTheLastMomentIsNotDeleted(t *testing.T) {
	namespace, c2, _ := engaged(t)
	c2.Disengage()
	var inTarget hook
	target := engageWith(t, namespace, "hooked", cluster2, env.Intercept(logins[cluster2], inTarget.see))
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	waitForObjection(t, pod, target, "")
	mustEnsure(t, pod, target)
	made := find(t, c2, "data")
	var deletions atomic.Int32
	inTarget.on(t, http.MethodDelete, namespace, "data", func(*http.Request) *http.Response {
		deletions.Add(1)
		taken := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.LabelParentUID)
		patch := client.RawPatch(types.MergePatchType, taken)
		if err := cluster2.Client.Patch(context.WithoutCancel(t.Context()), made.DeepCopy(), patch); err != nil {
			t.Error(err)
		}
		inTarget.off()
		return nil
	})
	remove(t, source, original)
	waitForObjection(t, pod, target, "") // It is a claim of the target's own.
	waitForWorkers(t, target)
	expectKept(t, c2.Cluster, made)
	if n := deletions.Load(); n != 1 {
		t.Errorf("%d deletions were tried", n)
	}
}

func TestACopyWhoseClaimWentWhileItsTargetWasAwayIsDeleted(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	lost := createFollowed(t, namespace, "lost")
	createFollowed(t, namespace, "kept")
	away := engageAs(t, namespace, "away", cluster2)
	pod := podWith(namespace, "lost", "kept")
	waitForObjection(t, pod, away, "")
	mustEnsure(t, pod, away)
	madeOfLost, madeOfKept := find(t, c2, "lost"), find(t, c2, "kept")
	restored := create(t, cluster2, namespace, "restored", ofClass("fast"), func(claim *corev1.PersistentVolumeClaim) {
		claim.Labels = madeOfLost.Labels
		claim.Annotations = map[string]string{v1alpha1.AnnotationNeededAt: "2020-01-01T00:00:00Z"}
	})
	away.Disengage()
	c2.Disengage() // It leads to the same cluster.
	remove(t, source, lost)
	waitForWorkers(t, c3)
	expectKept(t, c2.Cluster, madeOfLost)

	away.Engage(t, registry)
	waitForDeletion(t, c2.Cluster, madeOfLost)
	expectKept(t, c2.Cluster, madeOfKept)
	expectKept(t, c2.Cluster, restored)
}

// TestACopyIsFoundWhereTheTargetNamesIt has a source with rights in namespaces only, as a new leader.
func TestACopyIsFoundWhereTheTargetNamesIt(t *testing.T) {
	const limited = "limited"
	namespace := env.Namespace(t, nil, source, cluster2)
	cluster2.BindRole(t, limited, namespace, env.SourceRole)
	cluster2.BindRole(t, limited, "", env.SummaryViewerRole)
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: limited}}
	grant.Spec.UserName = limited
	env.CreateForTest(t, cluster2, grant)
	target := env.NewTarget(cluster2, types.NamespacedName{Name: limited})
	target.Login = cluster2.User(t, limited)
	target.Customize = func(e *engage.Target) { e.Copied = cluster2.Copied(t, grant) }
	target.Engage(t, registry)
	original, pod := createFollowed(t, namespace, "data"), podWith(namespace, "data")
	waitForObjection(t, pod, target, "")
	mustEnsure(t, pod, target)
	made := &corev1.PersistentVolumeClaim{ObjectMeta: env.Meta(namespace, "data")}
	env.Get(t, cluster2, made)

	target.Disengage()
	remove(t, source, original)
	target.Engage(t, registry)
	expectKept(t, cluster2, made)
	env.ChangeStatus(t, cluster2, grant, func(g *v1alpha1.SourceGrant) { g.Status.Copied = []string{namespace} })
	waitForDeletion(t, cluster2, made)
}

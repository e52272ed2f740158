package claims

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const nowhere = ` does not exist there: make it there, or have it made from one here with the annotation multicluster.admiralty.io/follow`

func TestAPodGoesWhereItsClaimIs(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	if got := shared.claims.Objection(pod, s.c2); got != "claims in namespace "+s.namespace+" are not known yet" {
		t.Errorf("at first: %q", got)
	}
	apiserver.Eventually(t, func(context.Context) error {
		if shared.appeared.of(s.namespace) < 2 { // The source's are known, and the target's.
			return errors.New("nobody is told")
		}
		return nil
	})
	s.objects(pod, s.c2, `claim "data"`+nowhere)
	s.objects(pod, s.c3, `claim "data"`+nowhere)

	told := shared.appeared.of(s.namespace)
	pvc := s.create(shared.c2, "data", ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.objects(pod, s.c3, `claim "data"`+nowhere)
	if shared.appeared.of(s.namespace) == told {
		t.Error("nobody is told that the claim appeared")
	}
	s.bring(pod, s.c2)
	s.objects(s.pod("data", "log"), s.c2, `claim "log"`+nowhere)
	s.must(shared.c2.Client.Delete(t.Context(), pvc)) // and it has a finalizer
	s.objects(pod, s.c2, `claim "data" is being deleted there`)
	if got := shared.claims.Objection(s.pod(), s.c2); got != "" {
		t.Errorf("a pod without claims: %q", got)
	}
}

func TestAClaimIsMadeInOneTargetAndThePodStaysWithIt(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c3, "")
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)
	s.followedTo("data", s.called("c2"))
	if id := s.get(shared.source, "data").Annotations[v1alpha1.AnnotationFollowedToClusterID]; id != "c2-id" {
		t.Errorf("followed to cluster %q", id)
	}
	made := s.get(shared.c2, "data")
	if made == nil {
		t.Fatal("there is no copy")
	}
	wantLabels := map[string]string{
		v1alpha1.LabelParentClusterID: clusterID, v1alpha1.LabelParentClusterName: "c1", v1alpha1.LabelParentUID: string(original.UID),
	}
	if diff := cmp.Diff(wantLabels, made.Labels); diff != "" {
		t.Error(diff)
	}
	if by := made.Annotations[v1alpha1.AnnotationFollowedBy]; by != "multicluster-scheduler" {
		t.Errorf("followed by %q", by)
	}
	wantSpec := corev1.PersistentVolumeClaimSpec{
		AccessModes: original.Spec.AccessModes, Resources: original.Spec.Resources, StorageClassName: ptr.To("fast"), VolumeMode: original.Spec.VolumeMode,
	}
	if diff := cmp.Diff(wantSpec, made.Spec); diff != "" {
		t.Error(diff)
	}
	s.objects(pod, s.c2, "")
	s.objects(pod, s.c3, `claim "data" is in `+s.called("c2"))
	s.bring(pod, s.c2)
	s.refused(pod, s.c3, "is in "+s.called("c2"))
	s.stays(shared.c2, made)

	s.annotate(original, v1alpha1.AnnotationFollow, "")
	s.refused(pod, s.c3, "is in "+s.called("c2"))
	s.bring(pod, s.c2)
}

func TestOfPodsThatRaceForTargetsOneDecides(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	s.create(shared.source, "data", followed, ofClass("fast"))
	for _, target := range []*engage.Target{s.c2, s.c3} {
		s.objects(pod, target, "")
	}
	s.objects(pod, s.c2, "")
	const pods = 20
	errs := make([]error, pods)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() {
			<-start
			target := s.c2
			if i%2 == 1 {
				target = s.c3
			}
			errs[i] = shared.claims.Bring(t.Context(), pod, target)
		})
	}
	close(start)
	group.Wait()
	inC2, inC3 := s.get(shared.c2, "data") != nil, s.get(shared.c3, "data") != nil
	if inC2 == inC3 {
		t.Fatalf("in c2: %t, in c3: %t", inC2, inC3)
	}
	for i, err := range errs {
		wins := i%2 == 0 == inC2
		if wins != (err == nil) || !wins && !errors.As(err, new(*needs.RefusedError)) {
			t.Errorf("pod %d, which wins: %t: %v", i, wins, err)
		}
	}
}

func TestTwoManagersDoNotBindAClaimToTwoTargets(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	shared.hook.on(s, http.MethodPatch, "data", func(*http.Request) *http.Response {
		s.annotate(original, v1alpha1.AnnotationFollowedTo, s.called("c3"))
		return nil
	})
	if err := shared.claims.Bring(t.Context(), pod, s.c2); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	s.followedTo("data", s.called("c3"))
	if s.get(shared.c2, "data") != nil {
		t.Error("there is a copy")
	}
}

func TestAClaimThatNeverCameToBeMayBeMadeElsewhere(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.annotate(original, v1alpha1.AnnotationFollowedTo, s.called("c2"))
	s.objects(pod, s.c3, "")
	s.bring(pod, s.c3)
	s.followedTo("data", s.called("c3"))
	s.objects(pod, s.c2, `claim "data" is in `+s.called("c3"))
}

func TestACopyIsFoundAgainThoughItsPlaceWasForgotten(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.objects(pod, s.c3, "")
	s.bring(pod, s.c2)
	s.objects(pod, s.c3, `claim "data" is in `+s.called("c2")) // So it is known.
	s.annotate(original, v1alpha1.AnnotationFollowedTo, "")
	s.refused(pod, s.c3, "is in "+s.called("c2"))
	s.followedTo("data", s.called("c2"))
	if s.get(shared.c3, "data") != nil {
		t.Error("there is a second copy")
	}
}

func TestWhatATargetDoesNotTakeBindsNobody(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	s.create(shared.source, "data", followed, ofClass("fast"))
	hard := corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}
	s.must(shared.c2.Client.Create(t.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
	s.must(shared.c2.Client.Status().Update(t.Context(), quota))
	s.objects(pod, s.c2, "")
	apiserver.Eventually(t, func(ctx context.Context) error { // The API server learns of the quota.
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "probe"}, Spec: s.get(shared.source, "data").Spec}
		if err := shared.c2.Client.Create(ctx, pvc, client.DryRunAll); err == nil {
			return errors.New("the quota does not hold yet")
		}
		return nil
	})
	err := shared.claims.Bring(t.Context(), pod, s.c2)
	if !errors.As(err, new(*needs.RefusedError)) || !strings.Contains(err.Error(), "exceeded quota: none") {
		t.Errorf("error %v", err)
	}
	s.followedTo("data", "")
	s.objects(pod, s.c3, "")
	s.bring(pod, s.c3)
}

func TestOnlyDeletingTheClaimDeletesItsCopy(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	same := s.create(shared.source, "own", ofClass("fast"))
	own := s.create(shared.c2, "own", ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)
	made := s.get(shared.c2, "data")
	s.objects(s.pod("own"), s.c2, "")

	s.must(shared.source.Client.Delete(t.Context(), original)) // and it has a finalizer
	s.objects(pod, s.c2, `claim "data" is being deleted`)
	s.settled(s.c2, shared.c2)
	s.stays(shared.c2, made)
	s.release(shared.source, original)
	s.goes(shared.c2, made)

	// Another claim of that name does not get what the first has stored.
	s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, `claim "data" is being deleted there`)
	s.refused(pod, s.c2, "is being deleted there")
	s.release(shared.c2, made)
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)

	s.delete(shared.source, same)
	s.objects(s.pod("own"), s.c2, "")
	s.settled(s.c2, shared.c2)
	s.stays(shared.c2, own)
}

// settled has a claim made in a target and deleted, so that what came before it has been dealt with.
func (s *story) settled(target *engage.Target, cluster *apiserver.Cluster) {
	s.Helper()
	pod := s.pod("marker")
	original := s.create(shared.source, "marker", followed, ofClass("fast"))
	s.objects(pod, target, "")
	s.bring(pod, target)
	made := s.get(cluster, "marker")
	s.delete(shared.source, original)
	s.goes(cluster, made)
	s.release(cluster, made)
}

func TestNothingIsDeletedOnHearsay(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)
	made := s.get(shared.c2, "data")
	s.objects(pod, s.c3, `claim "data" is in `+s.called("c2")) // So it is known.

	var asked atomic.Int32
	shared.hook.on(s, http.MethodGet, "data", func(r *http.Request) *http.Response {
		asked.Add(1)
		return notFound(r)
	})
	s.delete(shared.source, original)
	apiserver.Eventually(t, func(context.Context) error {
		if asked.Load() < 3 {
			return errors.New("the source is not asked")
		}
		return nil
	})
	s.stays(shared.c2, made)
	shared.hook.off()
	s.goes(shared.c2, made)
}

func TestACopyThatIsTakenOverAtTheLastMomentIsNotDeleted(t *testing.T) {
	s := newStory(t)
	s.inC2.end()
	var inTarget hook
	config := rest.CopyConfig(shared.users[shared.c2])
	config.Wrap(inTarget.wrap)
	target, _ := s.engage("hooked", config)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, target, "")
	s.bring(pod, target)
	made := s.get(shared.c2, "data")
	var deletions atomic.Int32
	inTarget.on(s, http.MethodDelete, "data", func(*http.Request) *http.Response {
		deletions.Add(1)
		patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/labels/multicluster.admiralty.io~1parent-uid"}]`))
		if err := shared.c2.Client.Patch(context.WithoutCancel(t.Context()), made.DeepCopy(), patch); err != nil {
			t.Error(err)
		}
		inTarget.off()
		return nil
	})
	s.delete(shared.source, original)
	s.objects(pod, target, "") // It is a claim of the target's own.
	s.settled(target, shared.c2)
	s.stays(shared.c2, made)
	if n := deletions.Load(); n != 1 {
		t.Errorf("%d deletions were tried", n)
	}
}

func TestACopyWhoseClaimWentWhileItsTargetWasAwayIsDeleted(t *testing.T) {
	s := newStory(t)
	lost := s.create(shared.source, "lost", followed, ofClass("fast"))
	s.create(shared.source, "kept", followed, ofClass("fast"))
	away, engaged := s.engage("away", shared.users[shared.c2])
	pod := s.pod("lost", "kept")
	s.objects(pod, away, "")
	s.bring(pod, away)
	madeOfLost, madeOfKept := s.get(shared.c2, "lost"), s.get(shared.c2, "kept")
	restored := s.create(shared.c2, "restored", ofClass("fast"), func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Labels, pvc.Annotations = madeOfLost.Labels, map[string]string{v1alpha1.AnnotationNeededAt: "2020-01-01T00:00:00Z"}
	})
	engaged.end()
	s.inC2.end() // It leads to the same cluster.
	s.delete(shared.source, lost)
	s.settled(s.c3, shared.c3)
	s.stays(shared.c2, madeOfLost)

	s.engage("away", shared.users[shared.c2])
	s.goes(shared.c2, madeOfLost)
	s.stays(shared.c2, madeOfKept)
	s.stays(shared.c2, restored)
}

func TestATargetThatDoesNotLetLookAnyMoreRefuses(t *testing.T) {
	s := newStory(t)
	var inTarget hook
	config := rest.CopyConfig(shared.users[shared.c2])
	config.Wrap(inTarget.wrap)
	target, _ := s.engage("hooked", config)
	pod := s.pod("data")
	s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, target, "")
	inTarget.on(s, http.MethodGet, "data", forbidden)
	err := shared.claims.Bring(t.Context(), pod, target)
	if !errors.As(err, new(*needs.RefusedError)) || !strings.Contains(err.Error(), "cannot be seen there: the source's user needs the rights to get") {
		t.Errorf("error %v", err)
	}
	s.followedTo("data", "")
	inTarget.on(s, http.MethodGet, "data", notFound)
	if err := shared.claims.Bring(t.Context(), pod, target); err == nil || errors.As(err, new(*needs.RefusedError)) {
		t.Errorf("error %v, want one after which it is tried again", err)
	}
}

func TestTheMissingRightIsNamed(t *testing.T) {
	s := newStory(t)
	config, err := shared.c2.User("stranger-" + s.namespace)
	s.must(err)
	target, _ := s.engage("closed", config)
	apiserver.Eventually(t, func(context.Context) error {
		got := shared.claims.Objection(s.pod("data"), target)
		for _, part := range []string{"cannot be seen there: the source's user needs the rights to get, list and watch them", "stranger-" + s.namespace, "persistentvolumeclaims"} {
			if !strings.Contains(got, part) {
				return fmt.Errorf("%q does not say %q", got, part)
			}
		}
		return nil
	})
}

func TestASourceThatIsItsOwnTargetHasItsClaimsThere(t *testing.T) {
	s := newStory(t)
	self, _ := s.engage("self", shared.users[shared.source])
	plain, asked := s.create(shared.source, "plain"), s.create(shared.source, "asked", followed)
	s.objects(s.pod("plain", "asked"), self, "")
	s.bring(s.pod("plain", "asked"), self)
	s.followedTo("plain", "")
	s.followedTo("asked", s.called("self"))
	s.objects(s.pod("asked"), s.c2, `claim "asked" is in `+s.called("self"))

	s.create(shared.source, "away", followed)
	s.objects(s.pod("away"), s.c2, "")
	s.bring(s.pod("away"), s.c2)
	s.objects(s.pod("away"), self, `claim "away" is in `+s.called("c2"))
	s.settled(s.c2, shared.c2)
	s.stays(shared.source, plain)
	s.stays(shared.source, asked)
}

package claims

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const nowhere = " does not exist there: make it there, or have it made from one here with the annotation " +
	"multicluster.admiralty.io/follow"

func TestAPodGoesWhereItsClaimIs(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod := podWith(namespace, "data")
	if got := objection(pod, c2); got != "claims in namespace "+namespace+" are not known yet" {
		t.Errorf("at first: %q", got)
	}
	env.Eventually(t, func(context.Context) error {
		if len(appeared.With(namespace)) < 2 { // The claims of source and target are known.
			return errors.New("nothing is reported")
		}
		return nil
	})
	waitForObjection(t, pod, c2, `claim "data"`+nowhere)
	waitForObjection(t, pod, c3, `claim "data"`+nowhere)

	reported := len(appeared.With(namespace))
	pvc := create(t, c2.Cluster, namespace, "data", ofClass("fast"))
	waitForObjection(t, pod, c2, "")
	waitForObjection(t, pod, c3, `claim "data"`+nowhere)
	env.Eventually(t, func(context.Context) error {
		if len(appeared.With(namespace)) == reported {
			return errors.New("it is not reported that the claim appeared")
		}
		return nil
	})
	mustEnsure(t, pod, c2)
	waitForObjection(t, podWith(namespace, "data", "log"), c2, `claim "log"`+nowhere)
	env.Delete(t, c2.Cluster, pvc) // A finalizer holds it.
	waitForObjection(t, pod, c2, `claim "data" is being deleted there`)
	if got := objection(podWith(namespace), c2); got != "" {
		t.Errorf("a pod without claims: %q", got)
	}
}

func TestAClaimIsCopiedToOneTargetAndItsPodsGoThere(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	waitForObjection(t, pod, c3, "")
	waitForObjection(t, pod, c2, "")
	mustEnsure(t, pod, c2)
	expectFollowedTo(t, original, c2.Key.String())
	id := env.Get(t, source, original).Annotations[v1alpha1.AnnotationFollowedToClusterID]
	env.ExpectEqual(t, "cluster to which the claim is followed", "c2-id", id)
	made := find(t, c2, "data")
	if made == nil {
		t.Fatal("there is no copy")
	}
	env.ExpectEqual(t, "labels", map[string]string{
		v1alpha1.LabelParentClusterID: sourceID, v1alpha1.LabelParentClusterName: "c1",
		v1alpha1.LabelParentUID: string(original.UID),
	}, made.Labels)
	env.ExpectEqual(t, "followed by", user, made.Annotations[v1alpha1.AnnotationFollowedBy])
	env.ExpectEqual(t, "spec", corev1.PersistentVolumeClaimSpec{
		AccessModes: original.Spec.AccessModes, Resources: original.Spec.Resources,
		StorageClassName: ptr.To("fast"), VolumeMode: original.Spec.VolumeMode,
	}, made.Spec)
	waitForObjection(t, pod, c2, "")
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String())
	mustEnsure(t, pod, c2)
	expectRefusal(t, pod, c3, "is in "+c2.Key.String())
	expectKept(t, c2.Cluster, made)

	annotate(t, original, v1alpha1.AnnotationFollow, "")
	expectRefusal(t, pod, c3, "is in "+c2.Key.String())
	mustEnsure(t, pod, c2)
}

func TestPodsThatRaceForTargetsHaveTheirClaimCopiedToOne(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod := podWith(namespace, "data")
	createFollowed(t, namespace, "data")
	for _, target := range []*env.Target{c2, c3} {
		waitForObjection(t, pod, target, "")
	}
	waitForObjection(t, pod, c2, "")
	const pods = 20
	errs := make([]error, pods)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() {
			<-start
			target := c2
			if i%2 == 1 {
				target = c3
			}
			errs[i] = ensure(t.Context(), pod, target)
		})
	}
	close(start)
	group.Wait()
	inC2, inC3 := find(t, c2, "data") != nil, find(t, c3, "data") != nil
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

func TestTwoManagersDoNotCopyAClaimToTwoTargets(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	waitForObjection(t, pod, c2, "")
	inSource.on(t, http.MethodPatch, namespace, "data", func(*http.Request) *http.Response {
		annotate(t, original, v1alpha1.AnnotationFollowedTo, c3.Key.String())
		return nil
	})
	if err := ensure(t.Context(), pod, c2); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	expectFollowedTo(t, original, c3.Key.String())
	expectNone(t, c2, "data")
}

func TestAClaimThatWasNeverCopiedMayBeCopiedElsewhere(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	annotate(t, original, v1alpha1.AnnotationFollowedTo, c2.Key.String())
	waitForObjection(t, pod, c3, "")
	mustEnsure(t, pod, c3)
	expectFollowedTo(t, original, c3.Key.String())
	waitForObjection(t, pod, c2, `claim "data" is in `+c3.Key.String())
}

func TestACopyIsFoundAgainAlthoughTheSourceForgotTheTarget(t *testing.T) {
	_, c2, c3 := engaged(t)
	pod, original, _ := copied(t, c2)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String()) // The copy is known from now on.
	annotate(t, original, v1alpha1.AnnotationFollowedTo, "")
	expectRefusal(t, pod, c3, "is in "+c2.Key.String())
	expectFollowedTo(t, original, c2.Key.String())
	expectNone(t, c3, "data")
}

func TestAClaimThatATargetRefusesMayBeCopiedElsewhere(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	env.ForbidAll(t, c2.Cluster, namespace, corev1.ResourcePersistentVolumeClaims)
	waitForObjection(t, pod, c2, "")
	err := ensure(t.Context(), pod, c2)
	var refused *needs.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "exceeded quota: none") {
		t.Fatalf("error %v", err)
	}
	if refused.Class != apierror.QuotaExceeded {
		t.Errorf("class %d", refused.Class)
	}
	expectFollowedTo(t, original, "")
	waitForObjection(t, pod, c3, "")
	mustEnsure(t, pod, c3)
}

func TestATargetThatStopsShowingItsClaimsRefusesPods(t *testing.T) {
	namespace, _, _ := engaged(t)
	var inTarget hook
	target := engageWith(t, namespace, "hooked", cluster2, env.Intercept(logins[cluster2], inTarget.see))
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	waitForObjection(t, pod, target, "")
	inTarget.on(t, http.MethodGet, namespace, "data", forbidden)
	err := ensure(t.Context(), pod, target)
	want := "cannot be seen there: the source's user needs the rights to get"
	if !errors.As(err, new(*needs.RefusedError)) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want a refusal with %q", err, want)
	}
	expectFollowedTo(t, original, "")
	inTarget.on(t, http.MethodGet, namespace, "data", notFound)
	if err := ensure(t.Context(), pod, target); err == nil || errors.As(err, new(*needs.RefusedError)) {
		t.Errorf("error %v, want one after which it is tried again", err)
	}
}

func TestARightThatTheSourceLacksInATargetIsNamed(t *testing.T) {
	namespace, _, _ := engaged(t)
	stranger := "stranger-" + namespace
	target := engageWith(t, namespace, "closed", cluster2, cluster2.User(t, stranger))
	env.Eventually(t, func(context.Context) error {
		got := objection(podWith(namespace, "data"), target)
		for _, part := range []string{
			"cannot be seen there: the source's user needs the rights to get, list and watch them",
			stranger, "persistentvolumeclaims",
		} {
			if !strings.Contains(got, part) {
				return fmt.Errorf("%q does not say %q", got, part)
			}
		}
		return nil
	})
}

func TestASourceThatIsItsOwnTargetHasItsClaimsThere(t *testing.T) {
	namespace, c2, _ := engaged(t)
	self := engageAs(t, namespace, "self", source)
	plain, asked := create(t, source, namespace, "plain"), create(t, source, namespace, "asked", followed)
	waitForObjection(t, podWith(namespace, "plain", "asked"), self, "")
	mustEnsure(t, podWith(namespace, "plain", "asked"), self)
	expectFollowedTo(t, plain, "")
	expectFollowedTo(t, asked, self.Key.String())
	waitForObjection(t, podWith(namespace, "asked"), c2, `claim "asked" is in `+self.Key.String())

	create(t, source, namespace, "away", followed)
	waitForObjection(t, podWith(namespace, "away"), c2, "")
	mustEnsure(t, podWith(namespace, "away"), c2)
	waitForObjection(t, podWith(namespace, "away"), self, `claim "away" is in `+c2.Key.String())
	waitForWorkers(t, c2)
	expectKept(t, source, plain)
	expectKept(t, source, asked)
}

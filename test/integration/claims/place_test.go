package claims

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// waits is the reason to wait for a claim whose target cannot be asked.
func waits(target string) string {
	return fmt.Sprintf("is in %[1]s, which cannot be asked now: wait for %[1]s, or give up what is stored there by "+
		"emptying the annotation multicluster.admiralty.io/followed-to of the claim", target)
}

func TestAPodWaitsForATargetThatDoesNotAnswerAsAnAPIServer(t *testing.T) {
	namespace, _, c3 := engaged(t)
	var inTarget hook
	target := engageWith(t, namespace, "hooked", cluster2, env.Intercept(logins[cluster2], inTarget.see))
	pod := podWith(namespace, "data")
	original := createFollowed(t, namespace, "data")
	annotate(t, original, v1alpha1.AnnotationFollowedTo, target.Key.String())
	waitForObjection(t, pod, target, "")
	waitForObjection(t, pod, c3, "")
	inTarget.on(t, http.MethodGet, namespace, "data", notFound)
	err := ensure(t.Context(), pod, c3)
	if !errors.As(err, new(*needs.RefusedError)) || !strings.Contains(err.Error(), "cannot be asked now") {
		t.Errorf("error %v", err)
	}
	expectFollowedTo(t, original, target.Key.String())
}

func TestAPodWaitsForATargetThatCannotBeAsked(t *testing.T) {
	_, c2, c3 := engaged(t)
	pod, original, _ := copied(t, c2)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String())

	c2.Lose()
	waitForObjection(t, pod, c3, `claim "data" `+waits(c2.Key.String()))
	expectRefusal(t, pod, c3, waits(c2.Key.String()))
	c2.Engage(t, registry)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String())

	annotate(t, original, v1alpha1.AnnotationFollowedToClusterID, "")
	annotate(t, original, v1alpha1.AnnotationFollowedTo, "nobody-knows")
	waitForObjection(t, pod, c3, `claim "data" `+waits("nobody-knows"))
	expectRefusal(t, pod, c3, waits("nobody-knows"))
	expectNone(t, c3, "data")
}

func TestAClaimThatIsGivenUpIsCopiedElsewhere(t *testing.T) {
	_, c2, c3 := engaged(t)
	pod, original, made := copied(t, c2)
	// An empty copy would be taken back some seconds after it is given up.
	bind(t, c2.Cluster, original)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String()) // The copy is known from now on.

	c2.Lose()
	waitForObjection(t, pod, c3, `claim "data" `+waits(c2.Key.String()))
	giveUp(t, original)
	waitForObjection(t, pod, c3, "")
	mustEnsure(t, pod, c3)
	expectFollowedTo(t, original, c3.Key.String())
	if find(t, c3, "data") == nil {
		t.Error("there is no copy")
	}

	c2.Engage(t, registry)
	waitForObjection(t, pod, c2, `claim "data" is in `+c3.Key.String())
	waitForWorkers(t, c2)
	expectKept(t, c2.Cluster, made)
}

func TestAClaimStaysInItsClusterWhateverTargetsAreCalled(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod, original, _ := copied(t, c2)
	c2.Disengage()
	c3.Disengage()

	switched := engageAs(t, namespace, "c2", c3.Cluster)
	moved := fmt.Sprintf("is in the cluster with the ID c2-id, to which %[1]s does not lead any more: have a target "+
		"lead there, or give up what is stored there by emptying the annotation "+
		"multicluster.admiralty.io/followed-to of the claim", c2.Key.String())
	waitForObjection(t, pod, switched, `claim "data" `+moved)
	expectRefusal(t, pod, switched, moved)
	another := engageAs(t, namespace, "another", c3.Cluster)
	waitForObjection(t, pod, another, `claim "data" `+moved)
	expectRefusal(t, pod, another, moved)
	expectFollowedTo(t, original, c2.Key.String())
	expectNone(t, c3, "data")

	renamed := engageAs(t, namespace, "renamed", c2.Cluster)
	waitForObjection(t, pod, renamed, "")
	waitForObjection(t, pod, switched, `claim "data" is in `+renamed.Key.String())
	mustEnsure(t, pod, renamed)
	expectFollowedTo(t, original, renamed.Key.String())
}

func TestACopyThatIsFoundInAnotherTargetIsNotGivenUp(t *testing.T) {
	_, c2, c3 := engaged(t)
	pod, original, _ := copied(t, c2)
	annotate(t, original, v1alpha1.AnnotationFollowedToClusterID, "")
	annotate(t, original, v1alpha1.AnnotationFollowedTo, "old-name")
	found := "is in old-name, which cannot be asked now: wait for old-name, or use the copy that this target has by " +
		"emptying the annotation multicluster.admiralty.io/followed-to of the claim"
	waitForObjection(t, pod, c2, `claim "data" `+found)
	expectRefusal(t, pod, c2, found)
	waitForObjection(t, pod, c3, `claim "data" `+waits("old-name"))

	giveUp(t, original)
	waitForObjection(t, pod, c2, "")
	expectRefusal(t, pod, c3, "is in "+c2.Key.String())
	expectFollowedTo(t, original, c2.Key.String())
	mustEnsure(t, pod, c2)
}

// TestAClaimThatLostItsAnnotationIsNotMadeAgain has a tool replace the claim while the target of its copy is away.
func TestAClaimThatLostItsAnnotationIsNotMadeAgain(t *testing.T) {
	_, c2, c3 := engaged(t)
	pod, original, made := copied(t, c2)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String())
	c2.Lose()
	waitForObjection(t, pod, c3, `claim "data" `+waits(c2.Key.String()))
	replace(t, original)
	expectRefusal(t, pod, c3, waits(c2.Key.String()))
	expectFollowedTo(t, original, c2.Key.String())
	expectNone(t, c3, "data")

	c2.Engage(t, registry)
	waitForObjection(t, pod, c2, "")
	mustEnsure(t, pod, c2)
	expectFollowedTo(t, original, c2.Key.String())
	expectKept(t, c2.Cluster, made)
}

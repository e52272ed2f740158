package claims

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// waits is what is said of a claim that is in a target that cannot be asked.
func waits(target string) string {
	return fmt.Sprintf("is in %[1]s, which cannot be asked now: wait for %[1]s, or give up what is stored there by "+
		"removing the annotation multicluster.admiralty.io/followed-to from the claim", target)
}

func TestAPodWaitsForATargetWhoseAnswerIsNone(t *testing.T) {
	s := newStory(t)
	var inTarget hook
	config := rest.CopyConfig(shared.users[shared.c2])
	config.Wrap(inTarget.wrap)
	target, _ := s.engage("hooked", config)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.annotate(original, v1alpha1.AnnotationFollowedTo, s.called("hooked"))
	s.objects(pod, target, "")
	s.objects(pod, s.c3, "")
	inTarget.on(s, http.MethodGet, "data", notFound)
	err := shared.claims.Bring(t.Context(), pod, s.c3)
	if !errors.As(err, new(*needs.RefusedError)) || !strings.Contains(err.Error(), "cannot be asked now") {
		t.Errorf("error %v", err)
	}
	s.followedTo("data", s.called("hooked"))
}

func TestAPodWaitsForATargetThatCannotBeAsked(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.objects(pod, s.c3, "")
	s.bring(pod, s.c2)
	s.objects(pod, s.c3, `claim "data" is in `+s.called("c2"))

	shared.registry.SetReachable(s.c2, false)
	s.objects(pod, s.c3, `claim "data" `+waits(s.called("c2")))
	s.refused(pod, s.c3, waits(s.called("c2")))
	shared.registry.SetReachable(s.c2, true)
	s.objects(pod, s.c3, `claim "data" is in `+s.called("c2"))

	s.annotate(original, v1alpha1.AnnotationFollowedToClusterID, "")
	s.annotate(original, v1alpha1.AnnotationFollowedTo, "nobody-knows")
	s.objects(pod, s.c3, `claim "data" `+waits("nobody-knows"))
	s.refused(pod, s.c3, waits("nobody-knows"))
	if s.get(shared.c3, "data") != nil {
		t.Error("there is a second copy")
	}
}

func TestAClaimThatIsGivenUpIsMadeElsewhere(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.objects(pod, s.c3, "")
	s.bring(pod, s.c2)
	made := s.get(shared.c2, "data")
	s.objects(pod, s.c3, `claim "data" is in `+s.called("c2")) // So the copy is known.

	shared.registry.SetReachable(s.c2, false)
	s.objects(pod, s.c3, `claim "data" `+waits(s.called("c2")))
	s.annotate(original, v1alpha1.AnnotationFollowedTo, "")
	s.objects(pod, s.c3, "")
	s.bring(pod, s.c3)
	s.followedTo("data", s.called("c3"))
	if s.get(shared.c3, "data") == nil {
		t.Error("there is no copy")
	}

	shared.registry.SetReachable(s.c2, true)
	s.objects(pod, s.c2, `claim "data" is in `+s.called("c3"))
	s.settled(s.c2, shared.c2)
	s.stays(shared.c2, made)
}

func TestAClaimStaysInItsClusterWhateverTargetsAreCalled(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)
	s.inC2.end()
	s.inC3.end()

	switched, _ := s.engage("c2", shared.users[shared.c3])
	moved := fmt.Sprintf("is in the cluster with the ID c2-id, to which %[1]s does not lead any more: have a target lead there, or give up what is "+
		"stored there by removing the annotation multicluster.admiralty.io/followed-to from the claim", s.called("c2"))
	s.objects(pod, switched, `claim "data" `+moved)
	s.refused(pod, switched, moved)
	another, _ := s.engage("another", shared.users[shared.c3])
	s.objects(pod, another, `claim "data" `+moved)
	s.refused(pod, another, moved)
	s.followedTo("data", s.called("c2"))
	if s.get(shared.c3, "data") != nil {
		t.Fatal("there is a second copy")
	}

	renamed, _ := s.engage("renamed", shared.users[shared.c2])
	s.objects(pod, renamed, "")
	s.objects(pod, switched, `claim "data" is in `+s.called("renamed"))
	s.bring(pod, renamed)
	s.followedTo("data", s.called("renamed"))
}

func TestACopyThatIsFoundInAnotherTargetIsNotGivenUp(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)
	s.annotate(original, v1alpha1.AnnotationFollowedToClusterID, "")
	s.annotate(original, v1alpha1.AnnotationFollowedTo, "old-name")
	found := "is in old-name, which cannot be asked now: wait for old-name, or use the copy that this target has by removing the " +
		"annotation multicluster.admiralty.io/followed-to from the claim"
	s.objects(pod, s.c2, `claim "data" `+found)
	s.refused(pod, s.c2, found)
	s.objects(pod, s.c3, `claim "data" `+waits("old-name"))

	s.annotate(original, v1alpha1.AnnotationFollowedTo, "")
	s.objects(pod, s.c2, "")
	s.refused(pod, s.c3, "is in "+s.called("c2"))
	s.followedTo("data", s.called("c2"))
	s.bring(pod, s.c2)
}

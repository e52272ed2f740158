package services

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// ReasonNotFollowed is the reason of the event that says why a Service or Ingress is not in a target.
	ReasonNotFollowed = "NotFollowed"
	// ReasonSelectorDisputed is the reason of the event that says that somebody undoes our changes of a selector again
	// and again.
	ReasonSelectorDisputed = "SelectorDisputed"
	// ReasonSelectorInvalid is the reason of the event that says why a selector cannot be rewritten.
	ReasonSelectorInvalid = "SelectorInvalid"

	// sayAgainAfter is the least time between two events that say the same: API servers keep events so long.
	sayAgainAfter = time.Hour
	// kindsOfNotes is how many events about one object and one target, with different texts, are recorded beside one
	// another.
	kindsOfNotes = 8
)

func (f *Follower) recordNotCopied(about runtime.Object, target *engage.Target, message string) {
	f.options.Recorder.Eventf(
		about,
		nil,
		corev1.EventTypeWarning,
		ReasonNotFollowed,
		actionOf(target.Key, message),
		"Target %s (virtual node %s): %s",
		targetkind.Name(target.Key),
		target.NodeName,
		message,
	)
}

// actionOf returns the action of an event about a target. The recorder counts events of the same action and reason, and
// keeps the first one's text. So the action tells targets and texts apart. The number of a target's actions is bounded:
// the target chooses the texts.
func actionOf(target types.NamespacedName, message string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(message))
	return fmt.Sprintf("Follow%s%d", translate.TargetHash(target), hash.Sum32()%kindsOfNotes)
}

// recordExternalName says why an ExternalName Service is nowhere, if a user wants it everywhere. Targets let sources
// create Services of type ClusterIP only: others lead clients wherever the source wants.
func (f *Follower) recordExternalName(service *corev1.Service) {
	if service.Spec.Type != corev1.ServiceTypeExternalName || !global(service) {
		return
	}
	f.options.Recorder.Eventf(
		service,
		nil,
		corev1.EventTypeWarning,
		ReasonNotFollowed,
		"Follow",
		"No target gets a Service of type ExternalName, also with the annotation %s: create it in the targets",
		v1alpha1.AnnotationGlobal,
	)
}

func (f *Follower) recordDisputed(service *corev1.Service) {
	f.options.Recorder.Eventf(
		service,
		nil,
		corev1.EventTypeWarning,
		ReasonSelectorDisputed,
		"Rewrite",
		"Something writes the selector back again and again, so it is rewritten only every %s. Tell it to leave "+
			"spec.selector alone: "+
			"with Argo CD, ignoreDifferences with managedFieldsManagers [multicluster-scheduler] and "+
			"RespectIgnoreDifferences=true",
		disputePause,
	)
}

func (f *Follower) recordInvalid(service *corev1.Service, err error) {
	f.options.Recorder.Eventf(
		service, nil, corev1.EventTypeWarning, ReasonSelectorInvalid, "Rewrite", "%s", err.Error(),
	)
}

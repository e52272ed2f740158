package services

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
)

func (f *Follower) recordNotCopied(about runtime.Object, target *engage.Target, message string) {
	f.options.Recorder.Eventf(
		about,
		nil,
		corev1.EventTypeWarning,
		ReasonNotFollowed,
		engage.EventAction("Follow"+translate.TargetHash(target.Key), message),
		"Target %s (virtual node %s): %s",
		targetkind.Name(target.Key),
		target.NodeName,
		message,
	)
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

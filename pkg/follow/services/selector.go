package services

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// merged says whether Cilium merges the Services of that name of all clusters.
func merged(service *corev1.Service) bool {
	return service.Annotations["service.cilium.io/global"] == "true" ||
		service.Annotations["io.cilium/global-service"] == "true"
}

func rewritten(service *corev1.Service) bool {
	_, ok := service.Annotations[v1alpha1.AnnotationOriginalSelector]
	return ok
}

// userSelector returns the selector that the user wants, whether it was rewritten or not.
func userSelector(service *corev1.Service) (map[string]string, error) {
	written, ok := service.Annotations[v1alpha1.AnnotationOriginalSelector]
	if !ok {
		return service.Spec.Selector, nil
	}
	original, err := decodeSelector(written)
	if err != nil {
		return nil, fmt.Errorf(
			"the annotation %s is not a selector such as app=web,tier=front: %w",
			v1alpha1.AnnotationOriginalSelector,
			err,
		)
	}
	return translate.UserSelector(service.Spec.Selector, original), nil
}

func decodeSelector(written string) (map[string]string, error) {
	if !strings.HasPrefix(written, "{") {
		return labels.ConvertSelectorToLabelsMap(written)
	}
	var selector map[string]string
	err := json.Unmarshal([]byte(written), &selector)
	return selector, err
}

// rewriting is the change of a Service's selector in the source.
type rewriting struct {
	selector map[string]string
	// original is the value of the annotation original-selector. If it is empty, the user's selector is restored.
	original string
}

// rewrite returns the change after which the Service selects delegates or, without delegates, what the user wants. It
// returns nil if nothing has to change. It is pure.
func rewrite(service *corev1.Service, delegates bool, source translate.Source) (*rewriting, error) {
	if !delegates && !rewritten(service) {
		return nil, nil
	}
	user, err := userSelector(service)
	if err != nil {
		return nil, err
	}
	if !delegates {
		return &rewriting{selector: user}, nil
	}
	selector, err := translate.DelegateSelector(user, service.Annotations, source)
	if err != nil {
		return nil, fmt.Errorf("rewriting the selector: %w", err)
	}
	encoded := labels.Set(user).String()
	marked := service.Annotations[v1alpha1.AnnotationGlobal] == "true" &&
		service.Annotations[v1alpha1.AnnotationOriginalSelector] == encoded
	if marked && maps.Equal(selector, service.Spec.Selector) {
		return nil, nil
	}
	return &rewriting{selector: selector, original: encoded}, nil
}

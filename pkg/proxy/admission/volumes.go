package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// annotationsDefaultClass mark the StorageClass of claims that name none.
var annotationsDefaultClass = []string{ //nolint:gochecknoglobals // constant
	"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class",
}

// ephemeralVolumes returns what is wrong with the generic ephemeral volumes of an elected pod.
//
// kube-controller-manager makes a claim for each such volume of any pod: one in the target for the delegate, and one in
// this cluster for the proxy. The latter gets no volume if it waits for its first consumer, because nobody chooses a
// node for it. Otherwise this cluster would make a volume, too, or bind one, and nobody would use it. A class that this
// cluster does not have makes nothing here.
func (h Handler) ephemeralVolumes(ctx context.Context, pod *corev1.Pod) (field.ErrorList, error) {
	var errs field.ErrorList
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		class := v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName
		problem, err := h.boundHere(ctx, class)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			path := field.NewPath("spec", "volumes").Index(i).
				Child("ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
			errs = append(errs, field.Forbidden(path, "the pod runs in another cluster, but "+problem+
				", and nobody would use it: use a class with volumeBindingMode WaitForFirstConsumer, or one that "+
				"only the targets have"))
		}
	}
	return errs, nil
}

// boundHere says why a claim of the class would get a volume in this cluster. It returns an empty text if it would not.
func (h Handler) boundHere(ctx context.Context, name *string) (string, error) {
	if name != nil && *name == "" {
		return "this cluster would bind a volume without a class to its claim", nil
	}
	class, err := h.class(ctx, name)
	if err != nil || class == nil {
		return "", err
	}
	if mode := class.VolumeBindingMode; mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer {
		return "", nil
	}
	return fmt.Sprintf("this cluster has the StorageClass %q, which would make a volume here at once", class.Name), nil
}

// class returns the StorageClass of this name, or the default one. It returns nil if there is none.
func (h Handler) class(ctx context.Context, name *string) (*storagev1.StorageClass, error) {
	if name != nil {
		class := &storagev1.StorageClass{}
		err := h.Reader.Get(ctx, types.NamespacedName{Name: *name}, class)
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // documented
		}
		if err != nil {
			return nil, fmt.Errorf("getting StorageClass %q of a generic ephemeral volume: %w", *name, err)
		}
		return class, nil
	}
	classes := &storagev1.StorageClassList{}
	if err := h.Reader.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("listing StorageClasses for a generic ephemeral volume: %w", err)
	}
	return newestDefault(classes.Items), nil
}

// newestDefault returns the class that claims without a class get, or nil.
func newestDefault(classes []storagev1.StorageClass) *storagev1.StorageClass {
	var newest *storagev1.StorageClass
	for i := range classes {
		class := &classes[i]
		if isDefault(class) && (newest == nil || newest.CreationTimestamp.Before(&class.CreationTimestamp)) {
			newest = class
		}
	}
	return newest
}

func isDefault(class *storagev1.StorageClass) bool {
	for _, key := range annotationsDefaultClass {
		if class.Annotations[key] == "true" {
			return true
		}
	}
	return false
}

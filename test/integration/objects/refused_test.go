package objects

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// copiedService returns a Service that the source creates.
func copiedService(namespace, name string) *corev1.Service {
	service := &corev1.Service{ObjectMeta: env.Meta(namespace, name)}
	service.Labels = map[string]string{v1alpha1.LabelParentClusterID: sourceID}
	service.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: sourceUser}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	return service
}

// TestACopyThatIsNotAsItWasSeenIsNoRefusal has the API server answer a failed test, and an invalid change.
func TestACopyThatIsNotAsItWasSeenIsNoRefusal(t *testing.T) {
	namespace, _ := engaged(t)
	w := newWriter(t, identity)
	c := env.ClientFor(t, identity)
	created := func(t *testing.T, name string) *corev1.Service {
		t.Helper()
		service := copiedService(namespace, name)
		env.Must(t, c.Create(t.Context(), service))
		service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
		return service
	}
	valid := []patch.Operation{patch.Add("/spec/ports/0/port", 81)}
	for name, test := range map[string]struct {
		service string
		since   func(t *testing.T, seen *corev1.Service)
		changes []patch.Operation
		refused bool
	}{
		"a copy that was recreated": {
			service: "recreated",
			since: func(t *testing.T, seen *corev1.Service) {
				t.Helper()
				env.Must(t, c.Delete(t.Context(), seen.DeepCopy()))
				created(t, seen.Name)
			}, changes: valid,
		},
		"a copy that somebody made their own": {
			service: "taken",
			since: func(t *testing.T, seen *corev1.Service) {
				t.Helper()
				env.Change(t, target, seen.DeepCopy(), func(s *corev1.Service) { s.Labels = nil })
			}, changes: valid,
		},
		"a copy that lost what is to be removed": {
			service: "changed",
			since: func(t *testing.T, seen *corev1.Service) {
				t.Helper()
				env.Change(t, target, seen.DeepCopy(), func(s *corev1.Service) { s.Labels["theirs"] = "1" })
			}, changes: []patch.Operation{patch.Remove("/metadata/labels/gone")},
		},
		"a change that is invalid": {
			service: "invalid", since: func(*testing.T, *corev1.Service) {}, refused: true,
			changes: []patch.Operation{patch.Add("/spec/ports/0/port", 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := created(t, test.service)
			test.since(t, seen)
			if err := w.Patch(t.Context(), seen, test.changes); apierrors.IsInvalid(err) != test.refused ||
				err != nil && !test.refused {
				t.Errorf("error %v, want a refusal: %t", err, test.refused)
			}
			if got := env.Get(t, target, copiedService(namespace, test.service)).Spec.Ports[0].Port; got != 80 {
				t.Errorf("the port is %d, want 80", got)
			}
		})
	}
}

// TestAFullQuotaKeepsNoCopyFromBeingUpdated has a writer that does not know that the copy exists.
func TestAFullQuotaKeepsNoCopyFromBeingUpdated(t *testing.T) {
	namespace, c2 := engaged(t)
	w := newWriter(t, identity)
	env.Must(t, w.Write(t.Context(), content(namespace, "settings", "1"), false))
	expectUntouched := createTheirs(t, namespace)
	env.ForbidAll(t, target, namespace, corev1.ResourceConfigMaps)

	err := w.Write(t.Context(), content(namespace, "another", "1"), false)
	if apierror.Of(err, apierror.Create) != apierror.QuotaExceeded {
		t.Errorf("a new copy: got %v, want that a quota has no room", err)
	}
	env.Must(t, w.Write(t.Context(), content(namespace, "settings", "2"), false))
	env.ExpectEqual(t, "value", "2", value(t, namespace, "settings"))
	expectNotOurs(t, w.Write(t.Context(), content(namespace, "theirs", "ours"), false))
	expectUntouched(t)

	env.Create(t, source, configMap(namespace, "settings", "3"), configMap(namespace, "another", "3"))
	mustEnsure(t, env.Proxy(namespace, "web", needsConfigMap("settings")), c2)
	env.ExpectEqual(t, "value for a pod", "3", value(t, namespace, "settings"))
	err = ensure(t.Context(), env.Proxy(namespace, "web", needsConfigMap("another")), c2)
	if !errors.As(err, new(*needs.RefusedError)) {
		t.Errorf("a pod that needs a new copy: got %v, want a refusal", err)
	}
}

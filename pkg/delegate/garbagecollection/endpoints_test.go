package garbagecollection

import (
	"errors"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// sliceOf returns a copy of an EndpointSlice of c1, of a Service.
func sliceOf(service string) *metav1.PartialObjectMetadata {
	slice := copyOf("c1", "web-1")
	slice.Labels[discoveryv1.LabelServiceName] = service
	return slice
}

func TestAnEndpointSliceGoesWithItsService(t *testing.T) {
	unmarked := copyOf("c1", "web")
	delete(unmarked.Annotations, v1alpha1.AnnotationFollowedBy)
	global := sliceOf("web")
	global.Annotations[v1alpha1.AnnotationGlobal] = "true"
	tenants := sliceOf("web")
	delete(tenants.Annotations, v1alpha1.AnnotationFollowedBy)
	for name, test := range map[string]struct {
		slice   *metav1.PartialObjectMetadata
		service *metav1.PartialObjectMetadata // nil if there is none
		deleted bool
	}{
		"the Service is a copy of the same source": {sliceOf("web"), copyOf("c1", "web"), false},
		"the Service is gone":                      {sliceOf("web"), nil, true},
		"the Service of a global one is gone":      {global, nil, true},
		"the Service is another source's":          {sliceOf("web"), copyOf("c2", "web"), true},
		"the Service is the target's":              {sliceOf("web"), unmarked, true},
		"no Service is named":                      {sliceOf(""), copyOf("c1", "web"), true},
		"the EndpointSlice is no copy":             {tenants, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "endpointslices", test.slice)
			f.chaperonChanged(f.queue, nil, chaperon("c1", "db"))
			answer(f, test.service, nil)
			if _, err := f.Reconcile(t.Context(), f.key); err != nil {
				t.Fatal(err)
			}
			if got := wasDeleted(f); got != test.deleted {
				t.Errorf("deleted: %t, want %t", got, test.deleted)
			}
		})
	}
}

func TestWithoutAnAnswerAboutTheServiceAnEndpointSliceStays(t *testing.T) {
	f := newFixture(t, "endpointslices", sliceOf("web"))
	answer(f, nil, errors.New("etcd is slow"))
	if _, err := f.Reconcile(t.Context(), f.key); err == nil {
		t.Error("no error, so the EndpointSlice is not looked at again")
	}
	if wasDeleted(f) {
		t.Error("the EndpointSlice is deleted")
	}
}

func TestAServiceThatChangesHasItsEndpointSlicesLookedAt(t *testing.T) {
	f := newFixture(t, "endpointslices", sliceOf("web"))
	f.copyChanged(f.queue, services(), copyOf("c1", "other"), nil)
	f.drain()
	f.copyChanged(f.queue, services(), copyOf("c1", "web"), nil)
	found := false
	for _, k := range f.drain() {
		found = found || k == f.key
	}
	if !found {
		t.Error("the EndpointSlice is not looked at")
	}
}

// wasDeleted says whether the EndpointSlice was deleted, in any version.
func wasDeleted(f *fixture) bool {
	f.t.Helper()
	for _, action := range f.fake.Actions() {
		if action, ok := action.(clienttesting.DeleteActionImpl); ok {
			if p := action.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion != nil {
				f.t.Errorf("deleted with preconditions %v, want the UID only", p)
			}
			return true
		}
	}
	return false
}

// answer has the API server answer requests for Services.
func answer(f *fixture, service *metav1.PartialObjectMetadata, err error) {
	f.fake.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if service == nil && err == nil {
			return false, nil, nil // The fake has no such object.
		}
		return true, service, err
	})
}

package garbagecollection

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	for service, want := range map[string]bool{"other": false, "web": true} {
		f.copyChanged(f.queue, services(), copyOf("c1", service), nil)
		if got := slices.Contains(f.drain(), f.key); got != want {
			t.Errorf("when the Service %q changes, the EndpointSlice is looked at: %t, want %t", service, got, want)
		}
	}
}

// TestAnEndpointSliceThatChangesMeanwhile has one that has lost its Service, and is not as the cache has it.
func TestAnEndpointSliceThatChangesMeanwhile(t *testing.T) {
	changed, own, another := sliceOf("web"), sliceOf("web"), sliceOf("web")
	delete(own.Labels, v1alpha1.LabelParentClusterID)
	another.UID = "another"
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "endpointslices"}, "web-1", errors.New("changed"))
	exactly, whatever := "uid and version", "uid"
	for name, test := range map[string]struct {
		live    *metav1.PartialObjectMetadata // nil if there is none
		answers []error
		silent  error // the answer to a look, if it is none
		want    []string
		failed  bool
	}{
		"its source has changed it, which does not keep it": {
			live: changed, answers: []error{conflict, nil}, want: []string{exactly, whatever},
		},
		"somebody has made it their own": {live: own, answers: []error{conflict}, want: []string{exactly}},
		"another one has its name":       {live: another, answers: []error{conflict}, want: []string{exactly}},
		"it is gone":                     {answers: []error{conflict}, want: []string{exactly}},
		"it is made anew in the last moment": {
			live: changed, answers: []error{conflict, conflict}, want: []string{exactly, whatever},
		},
		"nobody says what it is": {
			silent: errors.New("etcd is slow"), answers: []error{conflict}, want: []string{exactly}, failed: true,
		},
		"it cannot be deleted": {
			live: changed, answers: []error{errors.New("etcd is slow")}, want: []string{exactly}, failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "endpointslices", sliceOf("web"))
			answer(f, nil, nil)
			f.fake.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				err := test.answers[0]
				test.answers = test.answers[1:]
				return true, nil, err
			})
			f.fake.PrependReactor("get", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
				if test.live == nil && test.silent == nil {
					return false, nil, nil // The fake has no such object.
				}
				return true, test.live, test.silent
			})
			if _, err := f.Reconcile(t.Context(), f.key); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, deletions(f)); diff != "" {
				t.Errorf("deletions (-want +got):\n%s", diff)
			}
		})
	}
}

// wasDeleted says whether the EndpointSlice was deleted, as the cache has it.
func wasDeleted(f *fixture) bool {
	f.t.Helper()
	all := deletions(f)
	if len(all) > 0 && !slices.Equal(all, []string{"uid and version"}) {
		f.t.Errorf("deleted with the preconditions %v", all)
	}
	return len(all) > 0
}

// deletions returns the preconditions of the requests that delete.
func deletions(f *fixture) []string {
	var all []string
	for _, action := range f.fake.Actions() {
		action, ok := action.(clienttesting.DeleteActionImpl)
		if !ok {
			continue
		}
		switch p := action.DeleteOptions.Preconditions; {
		case p == nil || p.UID == nil:
			all = append(all, "none")
		case p.ResourceVersion == nil:
			all = append(all, "uid")
		default:
			all = append(all, "uid and version")
		}
	}
	return all
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

package garbagecollection

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// serving is an API server with these objects of each kind. It returns the deletions, and the lists by namespace. fails
// is the answer to the deletion of "db".
func serving(
	objects []*metav1.PartialObjectMetadata, fails error,
) (client *fake.FakeMetadataClient, deleted, listed *[]string) {
	client, deleted, listed = fake.NewSimpleMetadataClient(fake.NewTestScheme()), &[]string{}, &[]string{}
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		*listed = append(*listed, action.GetResource().Resource+" in "+action.GetNamespace())
		list := &metav1.List{}
		if action.GetResource().Resource == string(needs.ConfigMaps) {
			for _, object := range objects {
				list.Items = append(list.Items, runtime.RawExtension{Object: object})
			}
		}
		return true, list, nil
	})
	client.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		*deleted = append(*deleted, action.(clienttesting.DeleteActionImpl).Name)
		if action.(clienttesting.DeleteActionImpl).Name == "db" {
			return true, nil, fails
		}
		return true, nil, nil
	})
	return client, deleted, listed
}

func TestOnlyCopiesAreDeletedWhenAClusterIsNoTargetAnyMore(t *testing.T) {
	unmarked, ending := copyOf("c1", "users-own"), copyOf("c1", "ending")
	without(v1alpha1.AnnotationFollowedBy)(unmarked)
	deleted(ending)
	objects := []*metav1.PartialObjectMetadata{copyOf("c1", "db"), unmarked, ending, copyOf("c2", "cache")}
	resource, down := schema.GroupResource{Resource: "configmaps"}, errors.New("down")
	for name, test := range map[string]struct {
		err    error
		failed bool
	}{
		"all answers are good":  {},
		"one is gone":           {err: apierrors.NewNotFound(resource, "db")},
		"one cannot be deleted": {err: down, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			client, gone, _ := serving(objects, test.err)
			if err := DeleteCopies(t.Context(), client, nil); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if want := []string{"db", "cache"}; !slices.Equal(*gone, want) {
				t.Errorf("deleted %v, want %v", *gone, want)
			}
		})
	}
	t.Run("a list that fails does not keep the others back", func(t *testing.T) {
		client, gone, _ := serving(objects, nil)
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, down
		})
		if err := DeleteCopies(t.Context(), client, nil); !errors.Is(err, down) || len(*gone) != 2 {
			t.Errorf("error %v, deleted %v", err, *gone)
		}
	})
}

func TestACopyThatChangesMeanwhileIsLookedAtAgain(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "db", errors.New("changed"))
	for name, test := range map[string]struct {
		change  func(*metav1.PartialObjectMetadata)
		endless bool
		want    []string // the resource versions of the deletions
	}{
		"it is still a copy":             {func(*metav1.PartialObjectMetadata) {}, false, []string{"1", "2"}},
		"somebody has made it their own": {without(v1alpha1.AnnotationFollowedBy), false, []string{"1"}},
		"it changes all the time": {
			func(*metav1.PartialObjectMetadata) {}, true, []string{"1", "2", "3", "4", "5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, version := copyOf("c1", "db"), 1
			db.ResourceVersion = "1"
			client, _, _ := serving([]*metav1.PartialObjectMetadata{db}, nil)
			var got []string
			client.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				only := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
				if only == nil || only.UID == nil || *only.UID != db.UID || only.ResourceVersion == nil {
					t.Fatalf("preconditions %+v", only)
				}
				if got = append(got, *only.ResourceVersion); version > 1 && !test.endless {
					return true, nil, nil
				}
				version++
				db.ResourceVersion = strconv.Itoa(version)
				test.change(db)
				return true, nil, conflict
			})
			if err := DeleteCopies(t.Context(), client, nil); apierrors.IsConflict(err) != test.endless {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("deleted versions %v, want %v", got, test.want)
			}
		})
	}
}

func TestAServiceAccountStaysForWhatWasAddedToItWhenAClusterIsNoTargetAnyMore(t *testing.T) {
	added := func(manager, fields string) *metav1.PartialObjectMetadata {
		account := copyOf("c1", manager)
		account.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}}
		return account
	}
	role := added("eksctl", `{"f:metadata":{"f:annotations":{"f:eks.amazonaws.com/role-arn":{}}}}`)
	plain := added(v1alpha1.FieldOwner, `{"f:metadata":{"f:labels":{"f:team":{}}}}`)
	client, gone, _ := serving(nil, nil)
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		switch action.GetResource().Resource {
		case string(needs.ServiceAccounts), string(needs.ConfigMaps):
			list.Items = []runtime.RawExtension{{Object: role}, {Object: plain}}
		}
		return true, list, nil
	})
	if err := DeleteCopies(t.Context(), client, nil); err != nil {
		t.Fatal(err)
	}
	// Others than ServiceAccounts go.
	if want := []string{"eksctl", v1alpha1.FieldOwner, v1alpha1.FieldOwner}; !slices.Equal(*gone, want) {
		t.Errorf("deleted %v, want %v", *gone, want)
	}
}

func TestInWhichNamespacesSecretsAreRead(t *testing.T) {
	for name, test := range map[string]struct{ namespaces, want []string }{
		"in all, if none is given": {nil, []string{""}},
		"in all, if all are given": {[]string{"a", "*"}, []string{""}},
		"in those that are given":  {[]string{"a", "b"}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _, listed := serving(nil, nil)
			if err := DeleteCopies(t.Context(), client, test.namespaces); err != nil {
				t.Fatal(err)
			}
			var secrets []string
			for _, list := range *listed {
				switch kind, namespace, _ := strings.Cut(list, " in "); {
				case kind == string(needs.Secrets):
					secrets = append(secrets, namespace)
				case namespace != "":
					t.Errorf("only %s are listed", list)
				}
			}
			if !slices.Equal(secrets, test.want) {
				t.Errorf("Secrets are listed in %q, want %q", secrets, test.want)
			}
		})
	}
}

// TestWhichCopiesAreLookedAtWhenAUseEnds has a copy of each kind and each of two sources, all of one name.
func TestWhichCopiesAreLookedAtWhenAUseEnds(t *testing.T) {
	for name, test := range map[string]struct {
		ended objectUse
		want  []string
	}{
		"of a Secret": {
			objectUse{source: "c1", namespace: "default", resource: string(needs.Secrets), name: "db"},
			[]string{"secrets db"},
		},
		"of a namespace": {
			objectUse{source: "c1", namespace: "default"},
			[]string{"services web", "endpointslices web", "ingresses web"},
		},
		"of a namespace by another source": {
			objectUse{source: "c2", namespace: "default"}, []string{"services other"},
		},
		"of a namespace that has no copies": {objectUse{source: "c1", namespace: "other"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
			for _, kind := range []copyKind{services(), endpointSlices(), ingresses()} {
				store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
					toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
				objects := []any{copyOf("c1", "web")}
				if kind == services() {
					objects = append(objects, copyOf("c2", "other"))
				}
				for _, object := range objects {
					if err := store.Add(object); err != nil {
						t.Fatal(err)
					}
				}
				f.stores[kind] = []toolscache.Indexer{store}
			}
			var got []string
			for _, k := range f.copiesUsed(test.ended) {
				got = append(got, k.kind.Resource+" "+k.name.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

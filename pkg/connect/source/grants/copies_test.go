package grants

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// watchedCopies returns copies of two kinds in an API server that has these, and what is reported about them.
func watchedCopies(t *testing.T, objects ...runtime.Object) (*copies, *metadatafake.FakeMetadataClient, chan change) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	server := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	l, err := newCopies(newHere(t).keeper.options.Config, others(nil))
	if err != nil {
		t.Fatal(err)
	}
	l.client = server
	reported := make(chan change, 100)
	l.onChange(func(c change) { reported <- c })
	return l, server, reported
}

// copyOf is the ConfigMap that a user copied into a namespace.
func copyOf(user, namespace string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "of-" + user, Labels: map[string]string{v1alpha1.LabelParentClusterID: "id"},
			Annotations: map[string]string{v1alpha1.AnnotationFollowedBy: user, "large": "text"},
		},
	}
}

func TestCopiesAreKnownOnceAllKindsAreListed(t *testing.T) {
	l, server, reported := watchedCopies(t, copyOf("c1", "a"), copyOf("c2", "b"), copyOf("", "c"))
	fails := true
	server.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fails, nil, errors.New("no right")
	})
	go func() { _ = l.Start(t.Context()) }()
	if got := l.use("a", []string{"c1"}); got != unknown {
		t.Errorf("the first question is answered by %d", got)
	}
	for receive(t, reported) != (change{}) { // until one failed
	}
	want := "listing copies of secrets: failed to list *v1.PartialObjectMetadata: no right"
	if got := l.problem(); got != want {
		t.Errorf("problem %q", got)
	}
	if l.isListed() {
		t.Error("they count as listed")
	}
}

func TestWhoHasCopiesWhere(t *testing.T) {
	l, server, reported := watchedCopies(t, copyOf("c1", "a"), copyOf("c2", "b"), copyOf("", "c"))
	later := watch.NewFake() // It delivers what is sent, however late the watch begins.
	server.PrependWatchReactor("configmaps", clienttesting.DefaultWatchReactor(later, nil))
	go func() { _ = l.Start(t.Context()) }()
	l.isListed()
	known := sets.New[change]()
	for !known.Has(change{}) {
		known.Insert(receive(t, reported))
	}
	wantEqual(t, "reported", sets.New(change{"a", "c1", false}, change{"b", "c2", false}, change{}), known)
	for _, test := range []struct {
		namespace string
		users     []string
		want      use
	}{
		{"a", []string{"c0", "c1"}, used}, {"a", []string{"c2"}, unused}, {"b", []string{"c2"}, used},
		{"c", []string{"c1"}, unused}, {"d", []string{"c1"}, unused},
	} {
		if got := l.use(test.namespace, test.users); got != test.want {
			t.Errorf("%v in %s: %d, want %d", test.users, test.namespace, got, test.want)
		}
	}
	wantEqual(t, "namespaces", sets.New("a"), l.namespacesOf("c1"))
	later.Delete(copyOf("c1", "a"))
	if got := receive(t, reported); got != (change{"a", "c1", true}) {
		t.Errorf("reported %v", got)
	}
	if got := l.use("a", []string{"c1"}); got != unused {
		t.Errorf("a copy that is gone: %d", got)
	}
}

func receive(t *testing.T, reported chan change) change {
	t.Helper()
	select {
	case c := <-reported:
		return c
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is reported")
		return change{}
	}
}

func TestSeveralKindsThatCannotBeListed(t *testing.T) {
	l, server, reported := watchedCopies(t)
	server.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no right")
	})
	go func() { _ = l.Start(t.Context()) }()
	l.isListed()
	receive(t, reported)
	receive(t, reported)
	if got, want := l.problem(), " (and 1 more problems)"; !strings.HasSuffix(got, want) ||
		!strings.HasPrefix(got, "listing copies of configmaps: ") {
		t.Errorf("problem %q", got)
	}
}

func TestAFailureIsReportedOnce(t *testing.T) {
	l, _, reported := watchedCopies(t)
	informer := l.newInformer()
	for _, failure := range []string{"a", "a", "b", "b"} {
		l.failed(informer, errors.New(failure))
	}
	if got := len(reported); got != 2 {
		t.Errorf("reported %d times, want 2", got)
	}
}

func TestInWhichNamespacesSecretsAreListed(t *testing.T) {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	wantEqual(t, "by default", []string{metav1.NamespaceAll}, others(nil)[secrets])
	wantEqual(t, "some", []string{"a", "b"}, others([]string{"a", "b"})[secrets])
}

func TestOnlyTheUserOfACopyIsKept(t *testing.T) {
	kept, err := keepUser(copyOf("c1", "a"))
	o, ok := kept.(*metav1.PartialObjectMetadata)
	if err != nil || !ok || len(o.Annotations) != 1 || o.Annotations[v1alpha1.AnnotationFollowedBy] != "c1" ||
		o.Namespace != "a" || len(o.Labels) > 0 {
		t.Errorf("kept %v, error %v", kept, err)
	}
}

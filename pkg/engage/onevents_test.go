package engage

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// watching returns a target whose cache has an informer of Services.
func watching(informer toolscache.SharedIndexInformer) *Target {
	return &Target{Cache: &informertest.FakeInformers{
		InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
			corev1.SchemeGroupVersion.WithKind("Service"): informer,
		},
	}}
}

func TestOnEventsBeginsWithWhatIsThere(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	source.Add(service("first"))
	informer := toolscache.NewSharedIndexInformer(source, &corev1.Service{}, 0, toolscache.Indexers{})
	target := watching(informer)
	go informer.RunWithContext(t.Context())
	ctx, end := context.WithCancel(t.Context())
	seen, gone := make(chan string, 10), make(chan string, 10)
	err := OnEvents(ctx, target, &corev1.Service{},
		func(o *corev1.Service) { seen <- o.Name }, func(o *corev1.Service) { gone <- o.Name })
	if err != nil {
		t.Fatal(err)
	}
	select {
	case name := <-seen:
		if name != "first" {
			t.Errorf("saw %q, want the Service that was there", name)
		}
	default:
		t.Error("it returned before the Service that was there was seen")
	}
	source.Add(service("second"))
	if got := waittest.Receive(t, "the second Service", seen); got != "second" {
		t.Errorf("saw %q", got)
	}
	source.Delete(service("first"))
	if got := waittest.Receive(t, "the end of the first", gone); got != "first" {
		t.Errorf("saw the end of %q", got)
	}

	onlySeen := make(chan string, 10)
	err = OnEvents(t.Context(), target, &corev1.Service{}, func(o *corev1.Service) { onlySeen <- o.Name }, nil)
	if err != nil {
		t.Fatal(err)
	}
	end()
	source.Delete(service("second"))
	source.Add(service("third"))
	waittest.Receive(t, "the second Service", onlySeen)
	if got := waittest.Receive(t, "the third Service", onlySeen); got != "third" {
		t.Errorf("saw %q", got)
	}
	if len(seen)+len(gone) > 0 {
		t.Errorf("after the end, %d objects were seen, and the end of %d", len(seen), len(gone))
	}
}

func TestAnEventThatWasUnderWayAtTheEndIsNotHandled(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	calls := 0
	f := whileAlive(ctx, func(int) { calls++ })
	f(1)
	end()
	f(2)
	if calls != 1 {
		t.Errorf("%d calls, want the one before the end", calls)
	}
}

func TestOnEventsFails(t *testing.T) {
	failing := &Target{Cache: &informertest.FakeInformers{Error: errAway}}
	ended, end := context.WithCancel(t.Context())
	end()
	silent := toolscache.NewSharedIndexInformer(nil, &corev1.Service{}, 0, toolscache.Indexers{})
	stopped := toolscache.NewSharedIndexInformer(
		fcache.NewFakeControllerSource(), &corev1.Service{}, 0, toolscache.Indexers{})
	stopped.RunWithContext(ended)
	for name, test := range map[string]struct {
		ctx    context.Context //nolint:containedctx // It is what the case is about.
		target *Target
		want   error // nil if any will do
	}{
		"there is no informer":              {t.Context(), failing, errAway},
		"the informer has stopped":          {t.Context(), watching(stopped), nil},
		"the engagement ends before a list": {ended, watching(silent), context.Canceled},
	} {
		err := OnEvents(test.ctx, test.target, &corev1.Service{}, nil, nil)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: error is %v, want %v", name, err, test.want)
		}
	}
}

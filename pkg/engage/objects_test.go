package engage

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

func TestWhatATargetListsPassesTheGate(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` +
			`{"metadata":{"namespace":"shop","name":"a"}},{"metadata":{"namespace":"other","name":"b"}},` +
			`{"metadata":{"namespace":"shop","name":"c"}}]}`))
	}))
	defer server.Close()
	limits := wire.Default()
	limits.Objects = func() int64 { return 1 }
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	target := &Target{
		Key: types.NamespacedName{Namespace: "shop", Name: "c2"}, Config: &rest.Config{Host: server.URL},
		Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRESTMapper(mapper).Build(),
	}
	target.Gate = &gate.Gate{Key: target.Key, Allows: target.Allows}
	target.Account = wire.NewAccount(limits, clock.RealClock{})
	objects, err := target.Objects()
	if err != nil {
		t.Fatal(err)
	}
	informer := objects.NewInformer(&corev1.Service{}, &corev1.ServiceList{})
	go informer.RunWithContext(t.Context())
	if !toolscache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("nothing was listed")
	}
	for _, object := range informer.GetStore().List() {
		if service, ok := object.(*corev1.Service); !ok || service.Namespace != "shop" {
			t.Errorf("%v passes", object)
		}
	}
	if got := len(informer.GetStore().List()); got != 2 {
		t.Errorf("%d objects, want 2", got)
	}
	<-target.Account.Exceeded() // One object is allowed.
}

func TestTheSizeOfAnObject(t *testing.T) {
	object := &corev1.Service{}
	object.Name = "web"
	if got, want := sizeOf(object), int64(1024+object.Size()); got != want {
		t.Errorf("the size is %d, want %d", got, want)
	}
	if got := sizeOf(struct{}{}); got != wire.Default().Object {
		t.Errorf("the size of what has none is %d", got)
	}
}

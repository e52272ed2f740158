package uninstall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var errRefused = errors.New("the API server refuses it")

// cluster is a cluster that is both a source and a target, with a run. Only a test in a bubble has its time.
type cluster struct {
	*run
	copies *metadatafake.FakeMetadataClient
	logged strings.Builder
	// done are the writes, as "delete Node admiralty-c2". Requests of refused, as "list NodeList", fail.
	done    []string
	refused string
	// onScale is called when the Deployment is scaled.
	onScale func()
}

func newCluster(t *testing.T, timeout time.Duration, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	copies := metadatafake.NewTestScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), metav1.AddMetaToScheme(copies))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{copies: metadatafake.NewSimpleMetadataClient(copies), onScale: func() {}}
	index := func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.SchedulerName} //nolint:forcetypeassert // It is one.
	}
	c.run = &run{
		Options: Options{
			Configuration: &configv1alpha1.Configuration{
				Roles: configv1alpha1.Roles{Source: new(true), Target: new(true)},
			},
			Deployment: client.ObjectKey{Namespace: "admiralty", Name: "manager"},
			Webhook:    "pods", Pods: End, Timeout: timeout, Notice: notice,
		},
		client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
			WithIndex(&corev1.Pod{}, "spec.schedulerName", index).WithInterceptorFuncs(c.funcs()).Build(),
		metadata: c.copies, clock: clock.RealClock{}, until: time.Now().Add(timeout),
		log: funcr.New(func(_, line string) { c.logged.WriteString(line + "\n") }, funcr.Options{}),
	}
	return c
}

func (c *cluster) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption,
		) error {
			if err := c.refuse("get", o); err != nil {
				return err
			}
			return w.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, w client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			if err := c.refuse("list", l); err != nil {
				return err
			}
			return w.List(ctx, l, options...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := c.refuse("delete", o); err != nil {
				return err
			}
			c.done = append(c.done, fmt.Sprintf("delete %s %s", kindOf(o), o.GetName()))
			return w.Delete(ctx, o, options...)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, subresource string, o client.Object,
			patch client.Patch, _ ...client.SubResourcePatchOption,
		) error {
			if err := c.refuse(subresource, o); err != nil {
				return err
			}
			data, err := patch.Data(o)
			c.done = append(c.done, fmt.Sprintf("%s %s %s", subresource, o.GetName(), data))
			c.onScale()
			return err
		},
	}
}

func (c *cluster) refuse(verb string, o runtime.Object) error {
	if c.refused == verb+" "+kindOf(o) {
		return errRefused
	}
	return nil
}

// kindOf returns the kind of an object, or of the metadata that stand for it.
func kindOf(o runtime.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndex(name, ".")+1:]
}

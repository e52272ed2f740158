package services

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// existingOf returns the copies of a namespace, which are listed.
func existingOf(t *testing.T, services ...*corev1.Service) *existing {
	t.Helper()
	informerOf := func(kind runtime.Object, source *fcache.FakeControllerSource) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(source, kind, 0, toolscache.Indexers{})
	}
	source := fcache.NewFakeControllerSource()
	for _, service := range services {
		source.Add(service)
	}
	e := &existing{
		services:  informerOf(&corev1.Service{}, source),
		slices:    informerOf(&discoveryv1.EndpointSlice{}, fcache.NewFakeControllerSource()),
		ingresses: informerOf(&networkingv1.Ingress{}, fcache.NewFakeControllerSource()),
	}
	e.ofServices.init()
	e.ofIngresses.init()
	e.run(t.Context())
	if err := e.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheWatchesOfANamespaceEndWhenNobodyNeedsThem(t *testing.T) {
	now := time.Now()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for name, test := range map[string]struct {
		services []*corev1.Service
		used     time.Time
		busy     int
		ends     bool
	}{
		"without copies and use": {used: now.Add(-forgetAfter), ends: true},
		"with a copy":            {used: now.Add(-forgetAfter), services: []*corev1.Service{service}},
		"used of late":           {used: now.Add(time.Second - forgetAfter)},
		"with a worker":          {used: now.Add(-forgetAfter), busy: 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := existingOf(t, test.services...)
			ctx, stop := context.WithCancel(t.Context())
			e.stop, e.used = stop, test.used
			c := &copier{
				follower: &Follower{options: Options{Clock: clocktesting.NewFakePassiveClock(now)}},
				target:   &engage.Target{Copied: engage.NewCopied(nil)},
				existing: map[string]*existing{"shop": e}, busy: map[string]int{},
			}
			for range test.busy {
				c.enter("shop")
			}
			again := c.forget("shop").RequeueAfter
			ended := ctx.Err() != nil && c.watched("shop") == nil
			if ended != test.ends || (again == 0) != test.ends {
				t.Errorf("ended: %t, looks again after %s; want an end: %t", ended, again, test.ends)
			}
		})
	}
}

func TestATargetCannotNameNamespacesWithoutEnd(t *testing.T) {
	c := &copier{existing: map[string]*existing{}}
	for n := range maxFound {
		if c.foundEnough() {
			t.Fatalf("%d namespaces are enough, want %d", n, maxFound)
		}
		c.existing[strconv.Itoa(n)] = &existing{}
	}
	if !c.foundEnough() {
		t.Errorf("%d namespaces are not enough", maxFound)
	}
	c.existing["0"].used = time.Now()
	if c.foundEnough() {
		t.Error("a namespace that is used counts")
	}
}

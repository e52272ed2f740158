package manager

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// noted is a manager that notes what is added to it: controllers by their names, and other parts by their types.
type noted struct {
	ctrl.Manager
	added []string
}

func (n *noted) Add(part manager.Runnable) error {
	name := fmt.Sprintf("%T", part)
	if value := reflect.Indirect(reflect.ValueOf(part)); value.Kind() == reflect.Struct {
		if field := value.FieldByName("LeaderElected"); field.IsValid() { // a controller of controller-runtime
			name = "controller " + value.FieldByName("Name").String()
		}
	}
	n.added = append(n.added, name)
	return n.Manager.Add(part)
}

// newWiring returns the wiring of a manager that is never started, so it asks no API server.
func newWiring(
	t *testing.T, configuration *configv1alpha1.Configuration, as func(ctrl.Manager) ctrl.Manager,
) *wiring {
	t.Helper()
	metrics.Registry = prometheus.NewRegistry()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return testrestmapper.TestOnlyStaticRESTMapper(scheme), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &wiring{
		mgr: as(mgr), config: configuration, origin: translate.Source{ClusterID: "a"},
		pod: Pod{Namespace: "admiralty", ServiceAccount: "manager", IP: "10.0.0.1"},
	}
}

// wired returns what is added to a manager with a configuration.
func wired(t *testing.T, configuration *configv1alpha1.Configuration) []string {
	t.Helper()
	added := &noted{}
	w := newWiring(t, configuration, func(mgr ctrl.Manager) ctrl.Manager {
		added.Manager = mgr
		return added
	})
	if err := w.wire(t.Context(), fromFiles{}); err != nil {
		t.Fatal(err)
	}
	return added.added
}

func TestAManagerHasThePartsOfItsRoles(t *testing.T) {
	source := []string{
		"*proof.Keeper", "*addresses.InUse", "manager.RunnableFunc", "manager.RunnableFunc", "*services.Follower",
		"*policies.Follower", "*scheduling.Scheduler", "controller feedback-pods", "controller feedback-fenced",
		"controller virtual-node", "controller idle-pods", "*server.Server", "*token.Renewer", "*target.connections",
		"*target.standby", "controller target",
	}
	sources := []string{
		"*grants.copies", "*grants.copies", "controller sourcegrant", "controller source", "controller clustersource",
	}
	delegates := []string{"*warnings.Warnings", "controller chaperon"}
	copies, capacity := []string{"controller copies"}, []string{"*capacity.Publisher"}
	endpoints, presence := []string{"controller endpoints"}, []string{"*presence.Presence"}
	for name, test := range map[string]struct {
		change func(*configv1alpha1.Configuration)
		want   []string
	}{
		"both, which share the addresses": {
			func(*configv1alpha1.Configuration) {},
			slices.Concat(source, sources, endpoints, delegates, copies, capacity),
		},
		"a source": {func(c *configv1alpha1.Configuration) { *c.Roles.Target = false }, source},
		"a source without the kubelet API": {func(c *configv1alpha1.Configuration) {
			*c.Roles.Target, *c.KubeletAPI.Enabled = false, false
		}, slices.DeleteFunc(slices.Clone(source), func(part string) bool { return part == "*server.Server" })},
		"a target": {
			func(c *configv1alpha1.Configuration) { *c.Roles.Source = false },
			slices.Concat(sources, source[1:3], endpoints, delegates, copies, capacity),
		},
		"a target that fences": {func(c *configv1alpha1.Configuration) {
			*c.Roles.Source, c.Leases.Namespace = false, "leases"
		}, slices.Concat(sources, source[1:3], endpoints, []string{"*fence.Watch"}, delegates, copies, capacity,
			presence)},
		"a target with as little as can be": {func(c *configv1alpha1.Configuration) {
			*c.Roles.Source, *c.SourceController.Enabled, *c.GarbageCollection.Enabled = false, false, false
			*c.Endpoints.Check, c.Leases.Namespace = false, "leases" // Nobody gives sources Leases there.
		}, slices.Concat(delegates, capacity, presence)},
	} {
		t.Run(name, func(t *testing.T) {
			config := configv1alpha1.Default()
			test.change(config)
			if diff := cmp.Diff(test.want, wired(t, config)); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

// refusing is a manager to which nothing can be added.
type refusing struct{ ctrl.Manager }

func (refusing) Add(manager.Runnable) error { return errors.New("nothing can be added") }

func TestAPartThatCannotBeAddedIsNamed(t *testing.T) {
	w := newWiring(t, configv1alpha1.Default(), func(mgr ctrl.Manager) ctrl.Manager { return refusing{mgr} })
	const want = "adding proofs: nothing can be added"
	if err := w.wire(t.Context(), fromFiles{}); err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %q", err, want)
	}
}

func TestWhatAppearsBeforeThereIsASchedulerWakesNobody(*testing.T) {
	(&wiring{}).appeared("default", needs.Ref{})
}

package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/services"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const (
	clusterID = "source-id"
	user      = "source" // in targets
)

// serviceExports is what the Multi-Cluster Services API calls so.
const serviceExports = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: serviceexports.multicluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/1748"}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {kind: ServiceExport, listKind: ServiceExportList, plural: serviceexports, singular: serviceexport}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// world is what the tests share: a source with one follower, and two target clusters.
type world struct {
	scheme         *runtime.Scheme
	source, c2, c3 *apiserver.Cluster
	registry       *engage.Registry
	clock          *clocktesting.FakePassiveClock // the follower's
	events         *recorder
	secrets        *secrets
}

var shared world

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared.scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(shared.scheme); err != nil {
			return 0, err
		}
	}
	var group errgroup.Group
	for name, cluster := range map[string]**apiserver.Cluster{"source": &shared.source, "c2": &shared.c2, "c3": &shared.c3} {
		group.Go(func() (err error) {
			*cluster, err = apiserver.New(name, apiserver.Options{Scheme: shared.scheme})
			return err
		})
	}
	defer func() {
		for _, cluster := range []*apiserver.Cluster{shared.source, shared.c2, shared.c3} {
			if cluster != nil {
				_ = cluster.Stop()
			}
		}
	}()
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if err := installServiceExports(ctx); err != nil {
		return 0, err
	}
	for _, cluster := range []*apiserver.Cluster{shared.c2, shared.c3} {
		if err := grant(ctx, cluster); err != nil {
			return 0, err
		}
	}
	done, err := startFollower(ctx)
	if err != nil {
		return 0, err
	}
	code := m.Run()
	cancel()
	return code, <-done
}

// grant a source what the chart grants it in a target, as far as it is needed here.
func grant(ctx context.Context, cluster *apiserver.Cluster) error {
	verbs := []string{"create", "get", "list", "watch", "patch", "delete"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: verbs},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: verbs},
			{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: verbs},
			{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"podchaperons"}, Verbs: []string{"get", "list", "watch"}},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}
	return errors.Join(cluster.Client.Create(ctx, role), cluster.Client.Create(ctx, binding))
}

// installServiceExports returns once the source has the kind.
func installServiceExports(ctx context.Context) error {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(serviceExports), crd); err != nil {
		return err
	}
	if err := shared.source.Client.Create(ctx, crd); err != nil {
		return err
	}
	kind := schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if _, err := shared.source.Client.RESTMapper().RESTMapping(kind); !meta.IsNoMatchError(err) {
			return err
		}
	}
	return fmt.Errorf("%s does not appear", kind)
}

func startFollower(ctx context.Context) (<-chan error, error) {
	shared.clock = clocktesting.NewFakePassiveClock(time.Now())
	shared.events, shared.secrets = &recorder{}, &secrets{
		held: map[types.NamespacedName]map[types.NamespacedName][]string{}, refused: map[types.NamespacedName]bool{},
	}
	f, err := services.New(services.Options{
		Client:      shared.source.Client,
		APIReader:   shared.source.Client,
		Config:      shared.source.Config,
		Mapper:      shared.source.Client.RESTMapper(),
		Source:      translate.Source{ClusterID: clusterID},
		HoldSecrets: shared.secrets.hold,
		Clock:       shared.clock,
		Recorder:    shared.events,
		Logger:      logr.Discard(),
		Workers:     1, // What is enqueued first is done first: see settled.
	})
	if err != nil {
		return nil, err
	}
	shared.registry = engage.NewRegistry(f)
	done := make(chan error, 1)
	go func() { done <- f.Start(ctx) }()
	return done, nil
}

// recorder keeps events as "<namespace>/<name> <reason>: <note>".
type recorder struct {
	mu  sync.Mutex // guards all
	all []string
}

// Eventf keeps an event.
func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) { //nolint:revive // as the interface has it
	r.mu.Lock()
	defer r.mu.Unlock()
	about, _ := meta.Accessor(regarding)
	r.all = append(r.all, fmt.Sprintf("%s/%s %s: %s", about.GetNamespace(), about.GetName(), reason, fmt.Sprintf(note, args...)))
}

// count the events that begin and contain so.
func (r *recorder) count(beginning, part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, event := range r.all {
		if strings.HasPrefix(event, beginning) && strings.Contains(event, part) {
			n++
		}
	}
	return n
}

// secrets keeps which are held, and what is refused.
type secrets struct {
	mu      sync.Mutex                                                 // guards all that follows
	held    map[types.NamespacedName]map[types.NamespacedName][]string // by target and Ingress
	refused map[types.NamespacedName]bool                              // by target
}

func (s *secrets) hold(_ context.Context, target *engage.Target, ingress types.NamespacedName, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[target.Key] == nil {
		s.held[target.Key] = map[types.NamespacedName][]string{}
	}
	s.held[target.Key][ingress] = names
	if s.refused[target.Key] && len(names) > 0 {
		return &needs.RefusedError{Ref: needs.Ref{Resource: needs.Secrets, Name: names[0]}, Reason: "exists there"}
	}
	return nil
}

// refuse all that is to be held in a target, or take it from now on.
func (s *secrets) refuse(p *place, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[p.Key] = refused
}

// of an Ingress in the target's namespace.
func (s *secrets) of(p *place, ingress string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[p.Key][types.NamespacedName{Namespace: p.Key.Namespace, Name: ingress}]
}

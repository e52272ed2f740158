package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/garbagecollection"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/objects"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/services"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// supplier is the source's manager, as far as it makes copies.
type supplier struct {
	*process

	world    *supply
	objects  *objects.Follower
	claims   *claims.Claims
	services *services.Follower // nil if Services are not copied
	registry *engage.Registry
	engaged  map[*site]*supplied
	// placings are the pods that are being placed. The network's mutex guards them.
	placings map[types.UID]*placing
}

// supplied is an engaged target.
type supplied struct {
	target *engage.Target
	end    context.CancelFunc
}

// placing is the placement of a pod.
type placing struct {
	at      *supplied
	running bool
	began   time.Time
	// ensured is when all copies were there, and next is when the pod is placed again.
	ensured, next time.Time
	tries         int
}

// soleManager is a manager of one cluster. It has a cache, and runs what is added to it.
type soleManager struct {
	manager.Manager

	process *process
	cache   cache.Cache
	added   *[]manager.Runnable
}

func newSoleManager(p *process, cached caches) soleManager {
	return soleManager{process: p, cache: targetCache{caches: cached}, added: &[]manager.Runnable{}}
}

// GetCache returns the cache.
func (m soleManager) GetCache() cache.Cache { return m.cache }

// GetControllerOptions lets there be several controllers of one name.
func (soleManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: ptr.To(true), Logger: logr.Discard()}
}

// Add adds what runs from start on.
func (m soleManager) Add(r manager.Runnable) error {
	*m.added = append(*m.added, r)
	return nil
}

func (m soleManager) start() {
	for _, r := range *m.added {
		m.process.world.start(m.process.name, func() { _ = r.Start(m.process.ctx) })
	}
}

// evenly is a clock whose timers end at times that do not depend on the random part of a delay.
type evenly struct{ clock.RealClock }

// NewTimer rounds the time up.
func (e evenly) NewTimer(d time.Duration) clock.Timer {
	rounded := 1600 * time.Millisecond
	for rounded < d {
		rounded *= 2
	}
	return e.RealClock.NewTimer(rounded)
}

// mapperOfNeeds knows the kinds that are copied.
func mapperOfNeeds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount", "Service"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), meta.RESTScopeNamespace)
	m.Add(networkingv1.SchemeGroupVersion.WithKind("Ingress"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(storagev1.SchemeGroupVersion.WithKind("StorageClass"), meta.RESTScopeRoot)
	m.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	return m
}

// startSupplier starts the source's manager.
func (w *supply) startSupplier() {
	p := w.newProcess("the source's manager", w.source.cluster)
	s := &supplier{
		process: p, world: w, registry: engage.NewRegistry(), engaged: map[*site]*supplied{},
		placings: map[types.UID]*placing{},
	}
	pods := &lagging{
		name: p.name + "'s cache of pods", ctx: p.ctx, from: w.source.cluster, kind: kindPod, selects: everything,
		transform: reduced, objects: map[ref]client.Object{},
	}
	pods.relist()
	p.caches = append(p.caches, pods)
	toSource := (&door{process: p, to: w.source}).config()
	source := translate.Source{ClusterID: sourceID}
	m := newSoleManager(p, caches{kindPod: pods})
	var err, other error
	s.objects, err = objects.New(objects.Options{
		Config: toSource, Source: source, Appeared: func(string, needs.Ref) {}, Clock: evenly{}, Recorder: silent{},
		Logger: logr.Discard(),
	})
	s.claims, other = claims.New(claims.Options{
		Config: toSource, Scheme: scheme.Scheme, Mapper: mapperOfNeeds(), Source: source,
		Exists: func(context.Context, string) bool { return true },
		Connected: func(context.Context, string, time.Time) ([]string, error) {
			return []string{w.sites[0].name, w.sites[1].name}, nil
		},
		Appeared: func(string) {}, Clock: evenly{}, Recorder: silent{}, Logger: logr.Discard(),
	})
	if err = errors.Join(err, other); err != nil {
		panic(err)
	}
	s.registry.Observe(s.objects)
	s.registry.Observe(s.claims)
	s.objects.Register(p.ctx, m)
	_ = s.claims.Register(p.ctx, m) // soleManager.Add does not fail.
	if w.serving {
		s.followServices(m, toSource)
	}
	m.start()
	w.manager = s
	for _, k := range w.sites {
		if !k.cut {
			s.engage(k)
		}
	}
}

func reduced(o client.Object) client.Object {
	kept, err := podcache.Transform(copyOf(o))
	if err != nil {
		panic(err)
	}
	return kept.(client.Object) //nolint:forcetypeassert // It is a pod.
}

// engage engages a target, perhaps anew.
func (s *supplier) engage(k *site) {
	key := types.NamespacedName{Name: k.name}
	ctx, end := context.WithCancel(s.ctx)
	d := &door{process: s.process, to: k.httpServer, right: ctx}
	reached, err := client.New(d.config(), client.Options{Scheme: scheme.Scheme, Mapper: mapperOfNeeds()})
	if err != nil {
		panic(err)
	}
	g := newGate(key, nil)
	t := &engage.Target{
		Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key), ClusterID: k.name,
		Gate: g, Config: d.config(), Client: g.Client(reached, reached), APIReader: g.Reader(reached),
	}
	if s.services != nil {
		t.Cache = targetCache{caches: caches{kindChaperon: s.chaperonsOf(ctx, k)}}
	}
	e := &supplied{target: t, end: end}
	before := s.engaged[k]
	s.engaged[k] = e
	s.world.start(s.name+" engages "+k.name, func() {
		if err := s.registry.Engage(ctx, t); err != nil && ctx.Err() == nil {
			s.world.violate("engaging %s: %v", k.name, err)
		}
		if before != nil {
			before.end()
		}
	})
}

func (s *supplier) lose(k *site) {
	if e := s.engaged[k]; e != nil {
		s.registry.Lose(e.target)
	}
}

// place makes sure that a pod can go to a target, as scheduling does. Somebody else places it then.
func (s *supplier) place(pod *corev1.Pod, at *supplied) {
	p := &placing{at: at, running: true, began: time.Now(), tries: s.placing(pod.UID).tries + 1}
	s.note(func() { s.placings[pod.UID] = p })
	s.world.start(s.name+" places "+pod.Name, func() {
		ctx, cancel := context.WithTimeout(s.ctx, timeouts.EnsureNeeds)
		defer cancel()
		err := s.ensure(ctx, pod, at.target)
		s.note(func() {
			p.running, p.ensured = false, time.Now()
			if err != nil {
				p.ensured, p.next = time.Time{}, time.Now().Add(time.Second)
			}
		})
	})
}

var errObjection = errors.New("a claim keeps the pod from the target")

// ensure is what package scheduling asks package follow.
func (s *supplier) ensure(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	if err := s.objects.Missing(pod); err != nil {
		return err
	}
	if s.claims.Objection(pod, target, nil) != "" {
		return errObjection
	}
	if err := s.objects.Ensure(ctx, pod, target); err != nil {
		return err
	}
	return s.claims.Ensure(ctx, pod, target)
}

func (s *supplier) note(what func()) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	what()
}

// placing returns a copy of what is known of the placement of a pod.
func (s *supplier) placing(uid types.UID) placing {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if p := s.placings[uid]; p != nil {
		return *p
	}
	return placing{}
}

// startCollector starts the part of a target's manager that deletes copies.
func (w *supply) startCollector(k *site) {
	p := w.newProcess(k.name+"'s manager", k.cluster)
	chaperons := p.cache("cache of PodChaperons", view{k.cluster, kindChaperon, 0}, everything)
	m := newSoleManager(p, caches{kindChaperon: chaperons})
	d := &door{process: p, to: k.httpServer}
	options := garbagecollection.Options{Config: d.config(), Cache: m.cache, Clock: clock.RealClock{}}
	r, err := garbagecollection.New(options)
	if err != nil {
		panic(err)
	}
	if err := r.Register(m); err != nil {
		panic(err)
	}
	k.collector = p
	m.start()
}

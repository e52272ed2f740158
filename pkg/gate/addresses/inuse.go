package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// AllowOwn is the chart's value that lets Targets lead to addresses that the source uses itself.
const AllowOwn = "tenants.allowOwnAddresses"

// kind is what has an address.
type kind string

const (
	ofNode      kind = "a node"
	ofService   kind = "a Service"
	ofAPIServer kind = "an API server"
	ofPod       kind = "a pod"
	// ofDelegate is a pod of the source that a PodChaperon controls.
	ofDelegate kind = "a delegate"
	// ofProxy is a pod whose addresses come from a target. It does not use them.
	ofProxy kind = "a proxy"
	// ofEndpoints is an EndpointSlice that a source wrote here. It does not use its addresses.
	ofEndpoints kind = "endpoints"
)

// kept says whether objects of the kind are remembered without addresses, too.
func (k kind) kept() bool { return k == ofProxy || k == ofDelegate }

// shows says whether objects of the kind have addresses of other clusters, and do not use them.
func (k kind) shows() bool { return k == ofProxy || k == ofEndpoints }

// id identifies an object. Resources are a bound set of words.
type id struct {
	resource string
	types.NamespacedName
}

// user is what is known of an object: its kind and its addresses.
type user struct {
	kind kind
	has  []netip.Addr
	// source is the cluster ID of a delegate's source.
	source string
	// delegate is the name of a proxy's delegate.
	delegate string
}

func (u user) equal(other user) bool {
	return u.kind == other.kind && u.source == other.source && u.delegate == other.delegate &&
		slices.Equal(u.has, other.has)
}

// holder is an object with addresses.
type holder struct {
	id id
	user
	// waits are addresses in use that a proxy would show, the last ones.
	waits []netip.Addr
}

// maxWaits bounds the addresses for which a proxy waits. A pod has two, and its host has two.
const maxWaits = 4

// InUse knows the addresses that the cluster's own nodes, Services, pods and API servers use. It is safe for concurrent
// use. It watches them on the replicas that ask for them.
type InUse struct {
	// shared is the manager's cache. It has pods and nodes. own has the other kinds.
	shared, own cache.Cache
	apiServer   string
	asked       func() // closes wanted
	wanted      chan struct{}
	ready       chan struct{}
	// changed is called with a proxy, and changedEndpoints with an EndpointSlice of a source.
	changed, changedEndpoints func(types.NamespacedName)

	mu sync.Mutex // guards the fields below and what they contain
	// holders has every proxy and every delegate, and of the other objects those with addresses.
	holders   map[id]*holder
	byAddress map[netip.Addr][]*holder
	// waiting has the proxies that wait.
	waiting map[id]*holder
	// listed says of each resource whether the watch of it has begun.
	listed map[string]toolscache.DoneChecker
}

// New returns an InUse. It watches nodes and pods in a shared cache. Services and API servers are in a cache of its
// own, which it starts. apiServer is the URL at which this process reaches the API server.
func New(shared, own cache.Cache, apiServer string) *InUse {
	wanted := make(chan struct{})
	return &InUse{
		shared: shared, own: own, apiServer: apiServer,
		asked: sync.OnceFunc(func() { close(wanted) }), wanted: wanted, ready: make(chan struct{}),
		changed: func(types.NamespacedName) {}, changedEndpoints: func(types.NamespacedName) {},
		holders: map[id]*holder{}, byAddress: map[netip.Addr][]*holder{}, waiting: map[id]*holder{},
		listed: map[string]toolscache.DoneChecker{},
	}
}

// OnChange sets the function that is called with a proxy whose addresses are to be decided anew. It must be called
// before Start. The function must return soon, and may be called often.
func (u *InUse) OnChange(changed func(proxy types.NamespacedName)) { u.changed = changed }

// Wait waits until everything that exists is known. The first call on a replica starts the watches there. If ctx ends
// before, the error names the resources that are not known.
func (u *InUse) Wait(ctx context.Context) error {
	u.asked()
	select {
	case <-u.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("listing %s: %w", strings.Join(u.unknown(), ", "), context.Cause(ctx))
	}
}

// unknown returns the resources that have not been listed.
func (u *InUse) unknown() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var resources []string
	for _, resource := range []string{nodes, services, endpointSlices, pods} {
		if listed := u.listed[resource]; listed == nil || !toolscache.IsDone(listed) {
			resources = append(resources, resource)
		}
	}
	return resources
}

// Vet decides whether a proxy may show an address of its delegate, or of the delegate's host. If the address is in use,
// OnChange's function is called when that changes. A delegate in this cluster may have the addresses of its nodes. here
// says that the target is this cluster. It need not be set if the delegate is known.
func (u *InUse) Vet(proxy *corev1.Pod, ranges Ranges, here bool, address netip.Addr) *RefusedError {
	if refused := checkForm(address); refused != nil {
		return refused
	}
	by, own := u.userFor(proxy, here, address)
	if own {
		return nil
	}
	if by != "" {
		return &RefusedError{
			Address: address.String(),
			Reason: "in use by " + string(by) + " of this cluster; if Services of this cluster are to lead to pods " +
				"in the target, give the clusters different ranges of addresses",
		}
	}
	return ranges.check(address)
}

// userFor returns what uses an address, if anything does, and whether that is the proxy's delegate. If something else
// uses the address, the proxy waits for it.
func (u *InUse) userFor(proxy *corev1.Pod, here bool, address netip.Addr) (by kind, own bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := types.NamespacedName{Namespace: proxy.Namespace, Name: translate.DelegateName(proxy)}
	delegate := u.holders[id{pods, key}]
	here = here || delegate != nil && delegate.kind == ofDelegate
	by, own = u.userOf(address, func(h *holder) bool {
		return h.kind == ofDelegate && h == delegate || h.kind == ofNode && here
	})
	if by != "" {
		u.wait(types.NamespacedName{Namespace: proxy.Namespace, Name: proxy.Name}, address)
	}
	return by, own
}

// Check returns a *wire.AddressError for an address that the source uses itself.
func (u *InUse) Check(address netip.Addr) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if by, _ := u.userOf(address, func(*holder) bool { return false }); by != "" {
		return &wire.AddressError{
			Address: address.String(), Reason: "that of " + string(by) + " of this cluster", Value: AllowOwn,
		}
	}
	return nil
}

// userOf returns what uses an address, if anything does, and whether a holder has it for which isOwn is true.
func (u *InUse) userOf(address netip.Addr, isOwn func(*holder) bool) (by kind, own bool) {
	for _, form := range wire.Forms(address) {
		for _, h := range u.byAddress[form] {
			switch {
			case h.kind.shows():
			case form == address && isOwn(h):
				return "", true
			case h.kind == ofDelegate:
				by = ofPod
			default:
				by = h.kind
			}
		}
	}
	return by, false
}

// wait notes that a proxy would show an address.
func (u *InUse) wait(proxy types.NamespacedName, address netip.Addr) {
	h := u.holders[id{pods, proxy}]
	if h == nil || h.kind != ofProxy || slices.Contains(h.waits, address) {
		return // A proxy that is not known yet is decided anew when it is.
	}
	u.unlink(h)
	h.waits = append(h.waits, address)
	h.waits = h.waits[max(0, len(h.waits)-maxWaits):]
	u.link(h)
	u.await(h)
}

func (u *InUse) await(h *holder) {
	if len(h.waits) > 0 {
		u.waiting[h.id] = h
	}
}

// set notes what is known of an object. A user without addresses has none or is gone.
func (u *InUse) set(id id, is user) {
	for _, shower := range u.replace(id, is) {
		if shower.resource == pods {
			u.changed(shower.NamespacedName)
			continue
		}
		u.changedEndpoints(shower.NamespacedName)
	}
}

// forget notes that an object is gone.
func (u *InUse) forget(id id) { u.set(id, user{}) }

// replace replaces what is known of an object. It returns the proxies and EndpointSlices to be decided anew.
func (u *InUse) replace(id id, now user) []id {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.holders[id]
	if was != nil && was.equal(now) || was == nil && len(now.has) == 0 && !now.kind.kept() {
		return nil
	}
	is := &holder{id: id, user: now}
	touched := slices.Clone(now.has)
	if was != nil {
		u.unlink(was)
		delete(u.holders, id)
		delete(u.waiting, id)
		touched = append(touched, was.has...)
		is.waits = was.waits
	}
	if len(now.has) > 0 || now.kind.kept() {
		u.holders[id] = is
		u.link(is)
		u.await(is)
	} else if was != nil {
		is.kind = was.kind
	}
	return u.affected(is, touched)
}

// affected returns the objects that show or would show an address whose users changed. If a delegate changed, that is
// the proxy that waits for it. If a proxy changed, it is the proxy itself, if it shows an address in use.
func (u *InUse) affected(changed *holder, touched []netip.Addr) []id {
	inUse := func(address netip.Addr) bool {
		return slices.ContainsFunc(u.byAddress[address], func(h *holder) bool { return !h.kind.shows() })
	}
	switch {
	case changed.kind == ofProxy && slices.ContainsFunc(changed.has, inUse):
		return []id{changed.id}
	case changed.kind.shows():
		return nil
	}
	showers := sets.New[id]()
	for proxy, h := range u.waiting { // Usually there are none.
		if changed.kind == ofDelegate && h.delegate == changed.id.Name && h.id.Namespace == changed.id.Namespace {
			showers.Insert(proxy)
		}
	}
	for _, address := range touched {
		for _, h := range u.byAddress[address] {
			if h.kind.shows() {
				showers.Insert(h.id)
			}
		}
	}
	return showers.UnsortedList()
}

func (u *InUse) link(h *holder) {
	for _, address := range h.addresses() {
		u.byAddress[address] = append(u.byAddress[address], h)
	}
}

func (u *InUse) unlink(h *holder) {
	for _, address := range h.addresses() {
		rest := slices.DeleteFunc(u.byAddress[address], func(other *holder) bool { return other == h })
		if u.byAddress[address] = rest; len(rest) == 0 {
			delete(u.byAddress, address)
		}
	}
}

// addresses returns each address under which the holder is linked, once.
func (h *holder) addresses() []netip.Addr {
	all := slices.Clone(h.has)
	for _, address := range h.waits {
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

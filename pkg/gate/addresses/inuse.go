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
)

// id identifies an object. Resources are a bound set of words.
type id struct {
	resource string
	types.NamespacedName
}

// holder is an object with addresses.
type holder struct {
	id   id
	kind kind
	has  []netip.Addr
	// waits are addresses in use that a proxy would show, the last ones.
	waits []netip.Addr
}

// maxWaits bounds the addresses for which a proxy waits. A pod has two, and its host has two.
const maxWaits = 4

// InUse knows the addresses that the source's own nodes, Services, pods and API servers use. It is safe for concurrent
// use. It runs on the leader.
type InUse struct {
	// shared is the manager's cache. It has pods and nodes. own has the other kinds.
	shared, own cache.Cache
	apiServer   string
	ready       chan struct{}
	changed     func(proxy types.NamespacedName)

	mu sync.Mutex // guards the fields below and what they contain
	// holders has every proxy, and of the other objects those with addresses.
	holders   map[id]*holder
	byAddress map[netip.Addr][]*holder
	// listed says of each resource whether the watch of it has begun.
	listed map[string]toolscache.DoneChecker
}

func newInUse(shared, own cache.Cache, apiServer string) *InUse {
	return &InUse{
		shared: shared, own: own, apiServer: apiServer,
		ready: make(chan struct{}), changed: func(types.NamespacedName) {},
		holders: map[id]*holder{}, byAddress: map[netip.Addr][]*holder{},
		listed: map[string]toolscache.DoneChecker{},
	}
}

// OnChange sets the function that is called with a proxy whose addresses are to be decided anew. It must be called
// before Start. The function must return soon, and may be called often.
func (u *InUse) OnChange(changed func(proxy types.NamespacedName)) { u.changed = changed }

// Wait waits until everything that exists is known. If ctx ends before, the error names the resources that are not.
func (u *InUse) Wait(ctx context.Context) error {
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

// Vet decides whether a proxy may show an address of its delegate. If the address is in use, OnChange's function is
// called when that changes.
func (u *InUse) Vet(proxy *corev1.Pod, ranges Ranges, address netip.Addr) *RefusedError {
	if refused := checkForm(address); refused != nil {
		return refused
	}
	by, own := u.userFor(proxy, address)
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
func (u *InUse) userFor(proxy *corev1.Pod, address netip.Addr) (by kind, own bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	by, own = u.user(address, types.NamespacedName{Namespace: proxy.Namespace, Name: translate.DelegateName(proxy)})
	if by != "" {
		u.wait(types.NamespacedName{Namespace: proxy.Namespace, Name: proxy.Name}, address)
	}
	return by, own
}

// Check returns a *wire.AddressError for an address that the source uses itself.
func (u *InUse) Check(address netip.Addr) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if by, _ := u.user(address, types.NamespacedName{}); by != "" {
		return &wire.AddressError{
			Address: address.String(), Reason: "that of " + string(by) + " of this cluster", Value: AllowOwn,
		}
	}
	return nil
}

// user returns what uses an address, if anything does, and whether the delegate of that name has it.
func (u *InUse) user(address netip.Addr, delegate types.NamespacedName) (by kind, own bool) {
	for _, form := range wire.Forms(address) {
		for _, h := range u.byAddress[form] {
			switch {
			case h.kind == ofProxy:
			case h.kind == ofDelegate && h.id.NamespacedName == delegate && form == address:
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
}

// set notes the addresses of an object. No addresses are those of an object that has none or is gone.
func (u *InUse) set(id id, kind kind, has []netip.Addr) {
	for _, proxy := range u.replace(id, kind, has) {
		u.changed(proxy)
	}
}

// forget notes that an object is gone.
func (u *InUse) forget(id id) { u.set(id, "", nil) }

// replace replaces what is known of an object. It returns the proxies to be decided anew.
func (u *InUse) replace(id id, kind kind, has []netip.Addr) []types.NamespacedName {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.holders[id]
	if was != nil && was.kind == kind && slices.Equal(was.has, has) || was == nil && len(has) == 0 && kind != ofProxy {
		return nil
	}
	is := &holder{id: id, kind: kind, has: has}
	touched := slices.Clone(has)
	if was != nil {
		u.unlink(was)
		delete(u.holders, id)
		touched = append(touched, was.has...)
		is.waits = was.waits
	}
	if len(has) > 0 || kind == ofProxy {
		u.holders[id] = is
		u.link(is)
	} else if was != nil {
		is.kind = was.kind
	}
	return u.affected(is, touched)
}

// affected returns the proxies that show or would show an address whose users changed, or the proxy itself if it is
// what changed, and shows an address in use.
func (u *InUse) affected(changed *holder, addresses []netip.Addr) []types.NamespacedName {
	var proxies []types.NamespacedName
	for _, address := range addresses {
		for _, h := range u.byAddress[address] {
			switch {
			case changed.kind != ofProxy && h.kind == ofProxy && !slices.Contains(proxies, h.id.NamespacedName):
				proxies = append(proxies, h.id.NamespacedName)
			case changed.kind == ofProxy && h.kind != ofProxy && slices.Contains(changed.has, address):
				return []types.NamespacedName{changed.id.NamespacedName}
			}
		}
	}
	return proxies
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

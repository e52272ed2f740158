package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	"k8s.io/client-go/rest"
)

// Dial decides which addresses a target may have.
type Dial struct {
	// Check returns an error for an address that must not be dialled. It may be nil. It is called with the address of
	// each connection, after the name was resolved.
	Check func(netip.Addr) error
}

type (
	proxyFunc = func(*http.Request) (*url.URL, error)
	dialFunc  = func(ctx context.Context, network, address string) (net.Conn, error)
)

// route returns how to reach a target. A proxy in the configuration is checked as the target would be. A proxy in the
// manager's environment is the administrator's, and is not checked, but the target's own addresses are.
func (d Dial) route(config *rest.Config, base *url.URL) (proxyFunc, dialFunc) {
	if config.Proxy != nil {
		return config.Proxy, d.dialer().DialContext
	}
	proxy, err := environmentProxy(base)
	if proxy == nil && err == nil {
		return nil, d.dialer().DialContext
	}
	return func(r *http.Request) (*url.URL, error) {
		if err != nil {
			return nil, err
		}
		return proxy, d.checkName(r.Context(), base.Hostname())
	}, Dial{}.dialer().DialContext
}

// HTTPClientFor returns a client for the API server of a configuration, as rest.HTTPClientFor does. Requests that its
// connections could not deliver for a while are never delivered: see boundDelay.
func HTTPClientFor(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	config.Dial = Dial{}.dialer().DialContext
	return rest.HTTPClientFor(config)
}

func (d Dial) dialer() *net.Dialer {
	dialer := &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2},
	}
	dialer.Control = func(_, address string, connection syscall.RawConn) error {
		if d.Check == nil {
			return boundDelay(connection)
		}
		resolved, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("reading the address %q: %w", address, err)
		}
		if err := d.Check(resolved.Addr().Unmap().WithZone("")); err != nil {
			return err
		}
		return boundDelay(connection)
	}
	return dialer
}

func (d Dial) checkName(ctx context.Context, name string) error {
	if d.Check == nil {
		return nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return fmt.Errorf("resolving the name of the target: %w", err)
	}
	var errs []error
	for _, address := range addresses {
		errs = append(errs, d.Check(address.Unmap().WithZone("")))
	}
	return errors.Join(errs...)
}

// AllowLoopback is the chart's value that allows the addresses which CheckPublic refuses.
const AllowLoopback = "tenants.allowLoopback"

// CheckPublic returns an *AddressError for addresses that lead to this machine or its network segment: loopback,
// link-local, unspecified and multicast ones, in each of their Forms.
func CheckPublic(address netip.Addr) error {
	for _, form := range Forms(address) {
		if reason := notPublic(form); reason != "" {
			return &AddressError{Address: address.String(), Reason: reason, Value: AllowLoopback}
		}
	}
	return nil
}

func notPublic(address netip.Addr) string {
	switch {
	case address.IsLoopback():
		return "a loopback address"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	case address.IsMulticast():
		return "a multicast address"
	case address.IsUnspecified(), address.Is4() && address.As4()[0] == 0:
		return "no address of a host"
	case address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	}
	return ""
}

// Forms returns the address, without a zone, and the IPv4 address that it carries if it is an IPv6 address for
// translation or a tunnel: IPv4-mapped, IPv4-compatible, of NAT64, or of 6to4.
func Forms(address netip.Addr) []netip.Addr {
	address = address.Unmap().WithZone("")
	if !address.Is6() || address.IsUnspecified() || address.IsLoopback() {
		return []netip.Addr{address}
	}
	for _, carrier := range []struct {
		prefix string
		offset int
	}{{"::/96", 12}, {"64:ff9b::/96", 12}, {"2002::/16", 2}} {
		if netip.MustParsePrefix(carrier.prefix).Contains(address) {
			bytes := address.As16()
			carried, _ := netip.AddrFromSlice(bytes[carrier.offset : carrier.offset+net.IPv4len])
			return []netip.Addr{address, carried}
		}
	}
	return []netip.Addr{address}
}

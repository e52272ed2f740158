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

func (d Dial) dialer() *net.Dialer {
	dialer := &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2},
	}
	if d.Check != nil {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			resolved, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("reading the address %q: %w", address, err)
			}
			return d.Check(resolved.Addr().Unmap().WithZone(""))
		}
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

// CheckPublic returns an *AddressError for addresses that lead to this machine or its network segment: loopback,
// link-local, unspecified and multicast ones.
func CheckPublic(address netip.Addr) error {
	address = address.Unmap()
	for reason, found := range map[string]bool{
		"a loopback address":    address.IsLoopback(),
		"a link-local address":  address.IsLinkLocalUnicast(),
		"a multicast address":   address.IsMulticast(),
		"no address of a host":  address.IsUnspecified(),
		"the broadcast address": address == netip.AddrFrom4([4]byte{255, 255, 255, 255}),
	} {
		if found {
			return &AddressError{Address: address.String(), Reason: reason}
		}
	}
	return nil
}

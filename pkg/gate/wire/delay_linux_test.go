package wire

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire/wiretest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestTheKernelDeliversNothingThatIsOutOfDate(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	base := &url.URL{Scheme: "https", Host: listener.Addr().String()}
	proxy := &url.URL{Scheme: "http", Host: "proxy.invalid"}
	for name, config := range map[string]*rest.Config{
		"directly": {}, "by a proxy": {Proxy: func(*http.Request) (*url.URL, error) { return proxy, nil }},
	} {
		for rules, dial := range map[string]Dial{"any address": {}, "checked": {Check: allow}} {
			_, connect := dial.route(config, base)
			connection, err := connect(t.Context(), "tcp", base.Host)
			if err != nil {
				t.Fatal(err)
			}
			if within := wiretest.UserTimeout(t, connection); within <= 0 || within >= timeouts.LeaseDuration {
				t.Errorf("%s, %s: the kernel sends again for %s", name, rules, within)
			}
			_ = connection.Close()
		}
	}
}

func TestRequestsToTheOwnAPIServerAreBoundedToo(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	client, err := HTTPClientFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	if within := wiretest.UserTimeoutOf(t, client, server.URL); within <= 0 || within >= timeouts.LeaseDuration {
		t.Errorf("the kernel sends again for %s", within)
	}
}

func allow(netip.Addr) error { return nil }

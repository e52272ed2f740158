package wire

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

func TestADialIsCheckedOnTheResolvedAddress(t *testing.T) {
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, `{"kind":"ConfigMap","apiVersion":"v1"}`)
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(f.server.URL, "https://"), ":")
	f.server.URL = "https://localhost:" + port // a name
	var asked atomic.Value
	f.connect(t, Default(), Dial{Check: func(address netip.Addr) error {
		asked.Store(address)
		return nil
	}})
	if err := f.get(t); err != nil {
		t.Fatal(err)
	}
	if address, ok := asked.Load().(netip.Addr); !ok || !address.IsLoopback() {
		t.Errorf("it was asked about %v", asked.Load())
	}
	f.connect(t, Default(), Dial{Check: CheckPublic})
	refused := (*AddressError)(nil)
	if err := f.get(t); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	streams, err := HardenStreams(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/log", nil)
	if _, err := streams.RoundTrip(r); !errors.As(err, &refused) { //nolint:bodyclose // There is none.
		t.Errorf("got %v", err)
	}
}

func TestCheckPublic(t *testing.T) {
	for address, public := range map[string]bool{
		"10.0.0.1": true, "192.0.2.7": true, "2001:db8::1": true, "::ffff:10.0.0.1": true,
		"127.0.0.1": false, "127.8.9.1": false, "::1": false, "::ffff:127.0.0.1": false, "169.254.169.254": false,
		"fe80::1": false, "0.0.0.0": false, "::": false, "224.0.0.1": false, "ff02::1": false, "255.255.255.255": false,
		"0.0.0.7": false, "::127.0.0.1": false, "64:ff9b::127.0.0.1": false, "64:ff9b::10.0.0.1": true,
		"2002:7f00:1::1": false, "2002:a00:1::1": true,
	} {
		if err := CheckPublic(netip.MustParseAddr(address)); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestTheNameIsCheckedThroughAProxyOfTheEnvironment(t *testing.T) {
	refuse := Dial{Check: CheckPublic}
	if err := refuse.checkName(t.Context(), "localhost"); err == nil {
		t.Error("localhost is not refused")
	}
	proxy := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	config := &rest.Config{Host: "https://192.0.2.1", Proxy: http.ProxyURL(proxy)}
	_, dial := refuse.route(config, &url.URL{Scheme: "https", Host: "192.0.2.1"})
	refused := (*AddressError)(nil)
	if _, err := dial(t.Context(), "tcp", proxy.Host); !errors.As(err, &refused) {
		t.Errorf("a proxy of the kubeconfig is dialled anywhere: %v", err)
	}
}

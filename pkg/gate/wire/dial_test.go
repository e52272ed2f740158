package wire

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
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
	f.connect(t, patient(Default()), Dial{Check: func(address netip.Addr) error {
		asked.Store(address)
		return nil
	}})
	if err := f.get(t); err != nil {
		t.Fatal(err)
	}
	if address, ok := asked.Load().(netip.Addr); !ok || !address.IsLoopback() {
		t.Errorf("it was asked about %v", asked.Load())
	}
	f.connect(t, patient(Default()), Dial{Check: CheckPublic})
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

// TestMain sets the proxies of the environment, which net/http reads once. Connections to this machine need none. For
// addresses with http, a variable of CGI makes reading them fail.
func TestMain(m *testing.M) {
	for key, value := range map[string]string{
		"HTTPS_PROXY": "http://" + proxyHost, "HTTP_PROXY": "http://" + proxyHost, "NO_PROXY": "",
		"REQUEST_METHOD": "GET",
	} {
		if err := os.Setenv(key, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

const proxyHost = "proxy.example:3128"

func TestForms(t *testing.T) {
	for address, want := range map[string][]string{
		"10.0.0.1": {"10.0.0.1"}, "::": {"::"}, "::1": {"::1"}, "fe80::1%eth0": {"fe80::1"},
		"64:ff9b::10.0.0.1": {"64:ff9b::a00:1", "10.0.0.1"}, "2002:a00:1::1": {"2002:a00:1::1", "10.0.0.1"},
	} {
		var got []string
		for _, form := range Forms(netip.MustParseAddr(address)) {
			got = append(got, form.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}

func TestTheNameIsCheckedThroughAProxyOfTheEnvironment(t *testing.T) {
	refused, dial := (*AddressError)(nil), Dial{Check: CheckPublic}
	if err := dial.checkName(t.Context(), "localhost"); !errors.As(err, &refused) {
		t.Errorf("localhost is not refused: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := dial.checkName(ended, "name.invalid"); !errors.Is(err, context.Canceled) {
		t.Errorf("a name that is not resolved: %v", err)
	}
	if err := (Dial{}).checkName(ended, "name.invalid"); err != nil {
		t.Errorf("a name of which nothing is asked: %v", err)
	}
}

func TestRoutes(t *testing.T) {
	ofKubeconfig := http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	for name, test := range map[string]struct {
		to    string
		proxy func(*http.Request) (*url.URL, error)
		// want is the proxy, and err a part of the error about it.
		want, err string
		checked   bool // Each address that is dialled is checked.
	}{
		"without a proxy": {to: "https://127.0.0.1", checked: true},
		"by a proxy of the kubeconfig": {
			to: "https://192.0.2.1", proxy: ofKubeconfig, want: "127.0.0.1:1", checked: true,
		},
		"by a proxy of the environment":        {to: "https://192.0.2.1", want: proxyHost},
		"to nowhere by one of the environment": {to: "https://169.254.169.254", want: proxyHost, err: "link-local"},
		"by an environment with an error":      {to: "http://192.0.2.1", err: "CGI"},
	} {
		t.Run(name, func(t *testing.T) {
			to, _ := url.Parse(test.to)
			proxy, dial := Dial{Check: CheckPublic}.route(&rest.Config{Host: test.to, Proxy: test.proxy}, to)
			var by *url.URL
			var err error
			if proxy != nil {
				by, err = proxy((&http.Request{URL: to}).WithContext(t.Context()))
			}
			if (by != nil) != (test.want != "") || by != nil && by.Host != test.want {
				t.Errorf("by %v, want %q", by, test.want)
			}
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			refused := (*AddressError)(nil)
			if _, err := dial(t.Context(), "tcp", "127.0.0.1:1"); errors.As(err, &refused) != test.checked {
				t.Errorf("dialling: %v", err)
			}
		})
	}
}

package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
)

// fixture is a connection to a server that a test plays.
type fixture struct {
	account    *Account
	connection *Connection
	client     kubernetes.Interface
	server     *httptest.Server
	confirm    func(context.Context, *rest.Config) error
}

func newFixture(t *testing.T, limits Limits, clock clock.WithDelayedExecution, serve http.HandlerFunc) *fixture {
	t.Helper()
	f := &fixture{account: NewAccount(limits, clock)}
	f.server = httptest.NewUnstartedServer(serve)
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	return f.connect(t, limits, Dial{})
}

// confirmBy makes the fixture's client confirm connections and answers.
func (f *fixture) confirmBy(t *testing.T, confirm func(context.Context, *rest.Config) error) {
	t.Helper()
	f.confirm = confirm
	f.connect(t, Default(), Dial{})
}

func (f *fixture) connect(t *testing.T, limits Limits, dial Dial) *fixture {
	t.Helper()
	config := &rest.Config{Host: f.server.URL, QPS: -1, BearerToken: "token"}
	config.Insecure = true
	// Some clients ask for protobuf.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	var err error
	f.connection, err = Harden(config, Options{
		Limits: limits, Account: f.account, Dial: dial, Confirm: f.confirm,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.connection.Close)
	f.client, err = kubernetes.NewForConfig(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) get(t *testing.T) error {
	t.Helper()
	_, err := f.client.CoreV1().ConfigMaps("a").Get(t.Context(), "b", metav1.GetOptions{})
	return err
}

func sendJSON(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

func TestOrdinaryAnswersPass(t *testing.T) {
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Get("Accept"); strings.Contains(accept, "protobuf") {
			t.Errorf("it accepts %s", accept)
		}
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Error("no credentials")
		}
		sendJSON(w, `{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"`+strings.Repeat("a", 2<<20)+`"}}`)
	})
	if err := errors.Join(f.get(t), f.account.Violation()); err != nil {
		t.Error(err)
	}
}

func TestABombIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		call   func(context.Context, kubernetes.Interface) error
	}{
		"get": {http.StatusOK, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		}},
		"list": {http.StatusOK, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").List(ctx, metav1.ListOptions{})
			return err
		}},
		"create": {http.StatusCreated, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").Create(ctx, &corev1.ConfigMap{}, metav1.CreateOptions{})
			return err
		}},
		"version": {http.StatusOK, func(_ context.Context, c kubernetes.Interface) error {
			_, err := c.Discovery().ServerVersion()
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Default()
			limits.List = 8 << 20
			f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", "gzip")
				w.WriteHeader(test.status)
				unpacked(t, w, 300)
			})
			err := test.call(t.Context(), f.client)
			bound := (*BoundError)(nil)
			if !errors.As(err, &bound) {
				t.Errorf("got %v", err)
			}
			if f.account.Violation() == nil {
				t.Error("the account does not know")
			}
		})
	}
}

// unpacked writes a gzip bomb, as long as the client reads.
func unpacked(t *testing.T, w io.Writer, mebibytes int) {
	t.Helper()
	packer := gzip.NewWriter(w)
	letters := bytes.Repeat([]byte("a"), 1<<20)
	_, err := io.WriteString(packer, `{"a":"`)
	for i := 0; i < mebibytes && err == nil; i++ {
		_, err = packer.Write(letters)
	}
	_ = packer.Close()
}

func TestErrorsAreCutAndKeepTheirCode(t *testing.T) {
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusNotFound)
		unpacked(t, w, 300)
	})
	if err := f.get(t); !apierrors.IsNotFound(err) || len(err.Error()) > 1<<17 {
		t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	var followed atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	t.Cleanup(other.Close)
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	answer := (*AnswerError)(nil)
	if err := f.get(t); !errors.As(err, &answer) || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("got %v", err)
	}
	streams, err := HardenStreams(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/log", nil)
	if _, err := streams.RoundTrip(r); !errors.As(err, &answer) { //nolint:bodyclose // There is none.
		t.Errorf("got %v", err)
	}
	if followed.Load() {
		t.Error("the other server was asked")
	}
}

func TestOtherContentTypesAreRefused(t *testing.T) {
	for _, contentType := range []string{"application/vnd.kubernetes.protobuf", "text/html", ""} {
		f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{contentType}
			_, _ = io.WriteString(w, "hello")
		})
		answer := (*AnswerError)(nil)
		if err := f.get(t); !errors.As(err, &answer) {
			t.Errorf("%q: got %v", contentType, err)
		}
	}
}

func TestPagesCountTogether(t *testing.T) {
	limits := Default()
	limits.Objects = func() int64 { return 5 }
	f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"more"},"items":[{},{}]}`)
	})
	list := func(next string) error {
		_, err := f.client.CoreV1().ConfigMaps("a").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: next})
		return err
	}
	for range 3 { // Each list begins anew.
		if err := errors.Join(list(""), list("more")); err != nil {
			t.Fatal(err)
		}
	}
	if err := list("more"); err == nil || !strings.Contains(err.Error(), "5 objects") {
		t.Errorf("got %v", err)
	}
}

// watch returns the raw stream of a watch, or of a list that ends never.
func (f *fixture) watch(t *testing.T, query string) io.ReadCloser {
	t.Helper()
	location := f.server.URL + "/api/v1/configmaps?" + query
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, location, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.connection.Config().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer.Body
}

func TestWatchesLiveOn(t *testing.T) {
	fake, more := testclock.NewFakeClock(time.Now()), make(chan string)
	f := newFixture(t, Default(), fake, func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, "")
		for {
			select {
			case text := <-more:
				sendJSON(w, text)
			case <-r.Context().Done():
				return
			}
		}
	})
	for _, query := range []string{"watch=true", "watch=1&sendInitialEvents=true"} {
		stream := f.watch(t, query)
		expect := func(text string) {
			t.Helper()
			more <- text
			if _, err := io.ReadFull(stream, make([]byte, len(text))); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		expect(`{"a":{"k8s.io/initial-events-end":"true"}}`)
		for range 3 { // It rests for a day, and its events are larger than an object together.
			fake.Step(24 * time.Hour)
			expect(`{"a":"` + strings.Repeat("a", 2<<20) + `"}` + "\n")
		}
		if fake.HasWaiters() {
			t.Error("a timer runs although the watch rests")
		}
		_ = stream.Close()
	}
}

func TestAnEventThatHasBegunMustEnd(t *testing.T) {
	fake := testclock.NewFakeClock(time.Now())
	f := newFixture(t, Default(), fake, func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, `{"a":`)
		<-r.Context().Done()
	})
	for _, query := range []string{"watch=true", "watch=true&sendInitialEvents=true"} {
		stream := f.watch(t, query)
		result := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(stream)
			result <- err
		}()
		for err := error(nil); err == nil; {
			select {
			case err = <-result:
				timeout := (*TimeoutError)(nil)
				if !errors.As(err, &timeout) {
					t.Errorf("%s: got %v", query, err)
				}
			default:
				if fake.HasWaiters() {
					fake.Step(time.Minute)
				}
			}
		}
	}
	if err := f.account.Violation(); err != nil {
		t.Errorf("to be slow is a violation: %v", err)
	}
}

func TestASlowAnswerIsGivenUp(t *testing.T) {
	limits := Default()
	limits.Request, limits.Relist = 50*time.Millisecond, 50*time.Millisecond
	f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // A byte at a time.
			sendJSON(w, " ")
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	_, listed := f.client.CoreV1().ConfigMaps("a").List(t.Context(), metav1.ListOptions{})
	for _, err := range []error{f.get(t), listed} {
		timeout := (*TimeoutError)(nil)
		if !errors.As(err, &timeout) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAWatchThatExceedsItsRateIsNotRead(t *testing.T) {
	limits := Default()
	limits.Rate, limits.Burst = 1, 2*chunk
	f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			sendJSON(w, strings.Repeat("{}\n", 1<<12))
		}
	})
	stream := f.watch(t, "watch=true")
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, stream)
		read <- n
	}()
	for f.account.bucket.Tokens() > 0 { // Reading empties the bucket, and waits then.
		if t.Context().Err() != nil {
			t.Fatal("it is not read")
		}
	}
	_ = stream.Close()
	if n := <-read; n > 4*chunk {
		t.Errorf("read %d bytes", n)
	}
}

func TestAnAccountIsExceeded(t *testing.T) {
	fake := testclock.NewFakeClock(time.Now())
	for name, test := range map[string]struct {
		cost func(*Account)
		want string
	}{
		"by no violation": {func(*Account) {}, ""},
		"by few violations": {func(a *Account) {
			for range 4 {
				a.Violated("few")
			}
		}, ""},
		"by violations in hours": {func(a *Account) {
			for range 20 {
				fake.Step(time.Hour)
				a.Violated("seldom")
			}
		}, ""},
		"by violations within minutes": {func(a *Account) {
			fake.Step(24 * time.Hour)
			for range 5 {
				fake.Step(time.Minute)
				a.Violated("often")
			}
		}, "often"},
		"by objects": {func(a *Account) { a.Keep(20_000, 0); a.Keep(1_001, 0) }, "21000 objects"},
		"by bytes":   {func(a *Account) { a.Keep(1, 128<<20); a.Keep(1, 1) }, "128 MiB"},
		"not by objects that come and go": {func(a *Account) {
			for range 100 {
				a.Keep(1_000, 8<<20)
				a.Keep(-1_000, -8<<20)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAccount(Default(), fake)
			test.cost(a)
			exceeded := false
			select {
			case <-a.Exceeded():
				exceeded = true
			default:
			}
			err := a.Err()
			if exceeded != (test.want != "") || exceeded != (err != nil) || err != nil &&
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("exceeded %v, %v", exceeded, err)
			}
		})
	}
}

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

func TestStreamsAreUnboundedInTotal(t *testing.T) {
	const size = 8 << 20 // more than an object
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("it speaks %s", r.Proto)
		}
		if r.URL.Path == "/error" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write(bytes.Repeat([]byte("a"), size))
	})
	streams, err := HardenStreams(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int64{"/log": size, "/error": 64 << 10} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+path, nil)
		answer, err := streams.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if _ = answer.Body.Close(); n != want || err != nil {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
	}
}

// podsByName answers requests for pods: all exist but "missing".
func podsByName(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/missing"):
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	case strings.HasSuffix(r.URL.Path, "/pods") && r.Method == http.MethodGet:
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
	default:
		fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"there"}}`)
	}
}

// missing asks by a configuration for a pod that is missing.
func missing(ctx context.Context, config *rest.Config) error {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Pods("n").Get(ctx, "missing", metav1.GetOptions{})
	return err
}

func TestAnswersThatSayWhatDoesNotExistAreConfirmed(t *testing.T) {
	f := newFixture(t, Default(), clock.RealClock{}, podsByName)
	refused := errors.New("another cluster")
	asked, right := 0, true
	f.confirmBy(t, func(ctx context.Context, config *rest.Config) error {
		if right {
			return nil
		}
		asked++
		if err := missing(ctx, config); !apierrors.IsNotFound(err) {
			t.Errorf("what is asked in order to confirm is confirmed itself: %v", err)
		}
		return refused
	})
	pods := f.client.CoreV1().Pods("n")
	if _, err := pods.Get(t.Context(), "there", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	right = false // The connection is there.
	for name, test := range map[string]struct {
		ask       func(ctx context.Context) error
		confirmed bool
	}{
		"a list": {func(ctx context.Context) error {
			_, err := pods.List(ctx, metav1.ListOptions{})
			return err
		}, true},
		"a watch": {func(ctx context.Context) error {
			_, err := pods.Watch(ctx, metav1.ListOptions{})
			return err
		}, true},
		"nothing was found": {func(ctx context.Context) error {
			_, err := pods.Get(ctx, "missing", metav1.GetOptions{})
			return err
		}, true},
		"an object": {func(ctx context.Context) error {
			_, err := pods.Get(ctx, "there", metav1.GetOptions{})
			return err
		}, false},
		"nothing to delete": {func(ctx context.Context) error {
			return pods.Delete(ctx, "missing", metav1.DeleteOptions{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			err := test.ask(t.Context())
			if errors.Is(err, refused) != test.confirmed || (asked == 1) != test.confirmed {
				t.Errorf("asked %d times, error %v", asked, err)
			}
		})
	}
}

// TestEachStreamIsConfirmedBeforeItBegins has a target whose address another cluster gets between two streams.
func TestEachStreamIsConfirmedBeforeItBegins(t *testing.T) {
	var streams atomic.Int32
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			streams.Add(1)
		}
		podsByName(w, r)
	})
	refused := errors.New("another cluster")
	right := true
	f.confirmBy(t, func(context.Context, *rest.Config) error {
		if right {
			return nil
		}
		return refused
	})
	transport, err := HardenStreams(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	logs := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/api/v1/pods/there/log", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	}
	if err := logs(); err != nil || streams.Load() != 1 {
		t.Fatalf("%d streams have begun: %v", streams.Load(), err)
	}
	right = false // The connection of the first stream is not used again.
	if err := logs(); !errors.Is(err, refused) || streams.Load() != 1 {
		t.Errorf("%d streams have begun: %v", streams.Load(), err)
	}
}

func TestAConnectionIsUsedOnlyOnceItHasProvedWhereItLeads(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.Proto+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		podsByName(w, r)
	})
	refused := errors.New("another cluster")
	right := false
	f.confirmBy(t, func(ctx context.Context, config *rest.Config) error {
		if err := missing(ctx, config); !apierrors.IsNotFound(err) {
			t.Errorf("asking where the connection leads: %v", err)
		}
		if right {
			return nil
		}
		return refused
	})
	create := func() error {
		_, err := f.client.CoreV1().Pods("n").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
		return err
	}
	if err := create(); !errors.Is(err, refused) {
		t.Errorf("error %v, want %v", err, refused)
	}
	right = true
	for range 2 {
		if err := create(); err != nil {
			t.Error(err)
		}
	}
	const ask, made = "GET HTTP/1.1 Bearer token", "POST HTTP/2.0 Bearer token"
	if diff := cmp.Diff([]string{ask, ask, made, made}, seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

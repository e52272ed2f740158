package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const life = 10 * time.Minute

// cluster is the API server of a target. It makes tokens.
type cluster struct {
	*httptest.Server

	mu       sync.Mutex // guards the fields below
	answer   func() (int, string)
	denies   bool     // says that the source may not renew its token
	asked    []int64  // the seconds of each TokenRequest
	accepted []string // the token of each request
}

// serve starts a target's API server, which answers TokenRequests with a code, and a token if that is 201.
func serve(t *testing.T, answer func() (int, string)) *cluster {
	t.Helper()
	c := &cluster{answer: answer}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accepted = append(c.accepted, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			c.review(t, w)
			return
		}
		request := &authenticationv1.TokenRequest{}
		code, token := http.StatusOK, ""
		if r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces/admiralty/serviceaccounts/c1/token" {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = runtime.DecodeInto(clientscheme.Codecs.UniversalDeserializer(), body, request)
			}
			if err != nil {
				t.Error(err)
				return
			}
			c.asked = append(c.asked, *request.Spec.ExpirationSeconds)
			code, token = c.answer()
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		var body any = metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonForbidden,
		}
		if code < http.StatusBadRequest {
			request.APIVersion, request.Kind = "authentication.k8s.io/v1", "TokenRequest"
			request.Status.Token = token
			body = request
		}
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// review answers that the source may renew its token, or may not.
func (c *cluster) review(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	answer := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: !c.denies},
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		t.Error(err)
	}
}

func (c *cluster) requests() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// world is a source with one target.
type world struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	target   *cluster
	secrets  *fake.Clientset
	client   client.Client
	recorder *events.FakeRecorder
	renewer  *Renewer
	metrics  *prometheus.Registry
	config   *rest.Config
	stop     func()
}

func key() types.NamespacedName { return types.NamespacedName{Name: "c2"} }

func secretName() types.NamespacedName {
	return types.NamespacedName{Namespace: "admiralty", Name: "tokens"}
}

// newWorld returns a source, whose Renewer runs, and a target that makes tokens of ten minutes.
func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: clocktesting.NewFakeClock(start)}
	w.target = serve(t, func() (int, string) { return http.StatusCreated, issued(account, w.clock.Now(), life) })
	w.secrets = fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretName().Namespace, Name: secretName().Name},
	})
	w.client = clientfake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ClusterTarget{}).
		WithObjects(&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key().Name, UID: "1"}}).Build()
	w.config = &rest.Config{Host: w.target.URL, BearerToken: issued(account, start, life)}
	w.config.Insecure = true
	w.run()
	return w
}

// newRenewer returns another Renewer, which has not started.
func newRenewer(w *world) *Renewer {
	w.t.Helper()
	w.recorder, w.metrics = events.NewFakeRecorder(100), prometheus.NewRegistry()
	r, err := New(Options{
		Client: w.client, APIReader: w.client, Secrets: w.secrets, Secret: secretName(), Clock: w.clock,
		Jitter: func() float64 { return 0 }, Recorder: w.recorder, Logger: testr.New(w.t), Metrics: w.metrics,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// run runs another Renewer, as a new leader. stop ends it.
func (w *world) run() {
	w.t.Helper()
	w.renewer = newRenewer(w)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { _ = w.renewer.Start(ctx); close(done) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(w.stop)
}

// attach attaches the kubeconfig that is in the Secret now, and returns a client of the connection.
func (w *world) attach(config *rest.Config) *http.Client {
	w.t.Helper()
	w.renewer.Keep(key(), config)
	return w.attachAgain(config)
}

// attachAgain attaches a kubeconfig, whether or not it is still in the Secret.
func (w *world) attachAgain(config *rest.Config) *http.Client {
	w.t.Helper()
	attached, err := w.renewer.Attach(w.t.Context(), key(), config, wire.Dial{})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(attached)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// sends returns the token that a client sends.
func (w *world) sends(c *http.Client) string {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.target.URL+"/version", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := c.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = answer.Body.Close()
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	return w.target.accepted[len(w.target.accepted)-1]
}

func (w *world) eventually(check func() error) {
	w.t.Helper()
	var last error
	if wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { last = check(); return last == nil, nil }) != nil {
		w.t.Fatal(last)
	}
}

// stored returns the entry of the target in the Secret.
func (w *world) stored() (entry, bool) {
	w.t.Helper()
	secret, err := w.secrets.CoreV1().Secrets(secretName().Namespace).Get(
		w.t.Context(), secretName().Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var e entry
	raw, ok := secret.Data[keyOf(translate.TargetID(key()), fingerprintOf(w.config))]
	if ok && json.Unmarshal(raw, &e) != nil {
		w.t.Fatalf("entry %q", raw)
	}
	return e, ok
}

// waitStored waits until the Secret has a renewed token, or none.
func (w *world) waitStored(want bool) entry {
	w.t.Helper()
	var e entry
	w.eventually(func() (err error) {
		var ok bool
		if e, ok = w.stored(); ok != want {
			err = fmt.Errorf("there is an entry: %t", ok)
		}
		return err
	})
	return e
}

// waitStatus waits until the status of the target is accepted.
func (w *world) waitStatus(check func(*v1alpha1.TargetCredentials) error) {
	w.t.Helper()
	w.eventually(func() error {
		target := &v1alpha1.ClusterTarget{}
		if err := w.client.Get(w.t.Context(), key(), target); err != nil {
			return err
		}
		return check(target.Status.Credentials)
	})
}

// gather returns the metrics, by name and target.
func (w *world) gather() map[string]float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			all[family.GetName()+" "+metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return all
}

// expires returns a check of the time at which credentials expire, and of a part of the problem.
func expires(at time.Time, problem string) func(*v1alpha1.TargetCredentials) error {
	return func(c *v1alpha1.TargetCredentials) error {
		if c == nil || !c.Expires.Time.Equal(at) || !strings.Contains(c.Problem, problem) ||
			problem == "" && c.Problem != "" {
			return fmt.Errorf("credentials are %+v, want the end at %s and the problem %q", c, at, problem)
		}
		return nil
	}
}

// renewed waits until the token of the fake clock's time is stored.
func (w *world) renewed() entry {
	w.t.Helper()
	var e entry
	w.eventually(func() error {
		if e, _ = w.stored(); !e.Renewed.Equal(w.clock.Now()) {
			return fmt.Errorf("renewed at %s", e.Renewed)
		}
		return nil
	})
	return e
}

func TestATokenIsRenewedAtHalfOfItsLifeWithoutAnotherConnection(t *testing.T) {
	w := newWorld(t)
	c := w.attach(w.config)
	if w.sends(c) != w.config.BearerToken {
		t.Error("the first token is not the user's")
	}
	w.waitStatus(expires(start.Add(life), ""))
	w.clock.Step(life/2 - time.Second)
	w.renewer.stored() // It looks, and finds nothing to do.
	w.clock.Step(time.Second)
	e := w.renewed()
	if sent := w.sends(c); sent != e.Token || sent == w.config.BearerToken {
		t.Error("the connection does not use the renewed token")
	}
	w.waitStatus(expires(w.clock.Now().Add(life), ""))
	for range 3 {
		w.clock.Step(life / 2)
		w.renewed()
	}
	if asked := w.target.requests(); len(asked) != 4 || asked[3] != int64(life.Seconds()) {
		t.Errorf("asked for tokens of %d seconds, want 4 times %s", asked, life)
	}
}

func TestALongTokenIsRenewedToADay(t *testing.T) {
	w := newWorld(t)
	w.config.BearerToken = issued(account, start, 1000*time.Hour)
	w.attach(w.config)
	w.clock.Step(501 * time.Hour)
	w.renewed()
	if asked := w.target.requests(); len(asked) != 1 || asked[0] != int64((24*time.Hour).Seconds()) {
		t.Errorf("asked for tokens of %d seconds", asked)
	}
}

func TestATokenThatCannotBeRenewedIsReportedWhenItExpires(t *testing.T) {
	w := newWorld(t)
	w.target.answer = func() (int, string) { return http.StatusForbidden, "" }
	w.attach(w.config)
	w.waitStatus(expires(start.Add(life), ""))
	w.clock.Step(life / 2)
	w.waitStatus(expires(start.Add(life), "does not let service account admiralty/c1 make tokens for itself"))
	if len(w.recorder.Events) != 0 {
		t.Error("there is a warning before it is late")
	}
	w.clock.Step(life * 4 / 10)
	w.eventually(func() error {
		select {
		case event := <-w.recorder.Events:
			if !strings.Contains(
				event,
				"Warning CredentialsExpire the token for the target expires at 2030-01-01T00:10:00Z",
			) {
				t.Errorf("the event is %q", event)
			}
			return nil
		default:
			return errors.New("there is no event")
		}
	})
	w.target.mu.Lock()
	w.target.answer = func() (int, string) { return http.StatusCreated, issued(account, w.clock.Now(), life) }
	w.target.mu.Unlock()
	w.eventually(func() error { // The next attempt comes within a minute or so.
		w.clock.Step(time.Second)
		if _, ok := w.stored(); !ok {
			return errors.New("the token is not renewed")
		}
		return nil
	})
	w.waitStatus(func(c *v1alpha1.TargetCredentials) error {
		if c.Problem != "" {
			return errors.New(c.Problem)
		}
		return nil
	})
}

func TestAMissingRightIsReportedLongBeforeTheTokenExpires(t *testing.T) {
	w := newWorld(t)
	w.target.denies = true
	w.config.BearerToken = issued(account, start, 10*life)
	w.attach(w.config)
	w.waitStatus(expires(start.Add(10*life), "does not let service account admiralty/c1 make tokens for itself"))
	w.target.mu.Lock()
	w.target.denies = false
	w.target.mu.Unlock()
	w.eventually(func() error {
		w.clock.Step(time.Second)
		target := &v1alpha1.ClusterTarget{}
		if err := w.client.Get(t.Context(), key(), target); err != nil {
			return err
		}
		if target.Status.Credentials.Problem != "" {
			return errors.New(target.Status.Credentials.Problem)
		}
		return nil
	})
	if len(w.target.requests()) != 0 {
		t.Error("a token was requested")
	}
}

func TestWhatDoesNotExpireIsNotReported(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.waitStatus(expires(start.Add(life), ""))
	forever := rest.CopyConfig(w.config)
	forever.BearerToken = jwt(map[string]any{"sub": account, "iat": start.Unix()})
	if c := w.attach(forever); w.sends(c) != forever.BearerToken {
		t.Error("the token of the kubeconfig is not used")
	}
	w.waitStatus(func(c *v1alpha1.TargetCredentials) error {
		if c != nil {
			return fmt.Errorf("credentials are %+v", c)
		}
		return nil
	})
	if metrics := w.gather(); len(metrics) != 0 {
		t.Errorf("metrics are %v", metrics)
	}
}

func TestTheNextLeaderUsesTheRenewedToken(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	w.clock.Step(life / 4)
	w.run()
	if sent := w.sends(w.attach(w.config)); sent != e.Token {
		t.Error("the next leader uses the user's token")
	}
	w.waitStatus(expires(e.Renewed.Add(life), ""))
	want := map[string]float64{"multicluster_scheduler_target_credentials_expire_seconds c2": 450}
	if diff := cmp.Diff(want, w.gather()); diff != "" {
		t.Error(diff)
	}
}

func TestReplicasThatDoNotLeadBorrowTheRenewedToken(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	renewed := w.renewed()
	other := rest.CopyConfig(w.config)
	other.BearerToken = issued(account, start.Add(time.Second), life)
	for name, test := range map[string]struct {
		config *rest.Config
		want   string
	}{
		"the same kubeconfig": {w.config, renewed.Token},
		"another kubeconfig":  {other, other.BearerToken},
	} {
		t.Run(name, func(t *testing.T) {
			standby := newRenewer(w)
			borrowed, err := standby.Borrow(t.Context(), key(), test.config, wire.Dial{})
			if err != nil || borrowed.BearerToken != test.want {
				t.Errorf("got %v, %v", borrowed, err)
			}
		})
	}
}

func TestARenewedTokenGoesWithItsTarget(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"no target": func(w *world) { w.renewer.Forget(key()) },
		"no target when the next leader starts": func(w *world) {
			if err := w.client.Delete(w.t.Context(), &v1alpha1.ClusterTarget{
				ObjectMeta: metav1.ObjectMeta{Name: key().Name},
			}); err != nil {
				t.Fatal(err)
			}
			w.stop()
			w.run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.attach(w.config)
			w.clock.Step(life / 2)
			w.renewed()
			change(w)
			w.waitStored(false)
			w.expectNoRenewal()
			w.waitStored(false)
		})
	}
}

// expectNoRenewal lets a quarter of the token's life pass.
func (w *world) expectNoRenewal() {
	w.t.Helper()
	asked := len(w.target.requests())
	w.clock.Step(life / 4)
	w.renewer.stored()
	if len(w.target.requests()) != asked {
		w.t.Error("the renewal goes on")
	}
}

// losses are changes of the user's Secret that may be mistakes.
func losses() map[string]func(w *world) {
	other := func(w *world) *rest.Config {
		config := rest.CopyConfig(w.config)
		config.BearerToken = issued(account, start, 20*life)
		return config
	}
	return map[string]func(w *world){
		"another kubeconfig": func(w *world) { w.renewer.Keep(key(), other(w)) },
		"another kubeconfig that is connected": func(w *world) {
			config := other(w)
			if sent := w.sends(w.attach(config)); sent != config.BearerToken {
				w.t.Error("the renewed token of another kubeconfig is used")
			}
		},
		"no Secret": func(w *world) { w.renewer.End(key()) },
	}
}

func TestAKubeconfigThatIsPutBackHasItsRenewedToken(t *testing.T) {
	for name, lose := range losses() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.attach(w.config)
			w.clock.Step(life / 2)
			e := w.renewed()
			lose(w)
			w.expectNoRenewal()
			w.run() // The next leader knows only what is stored.
			lose(w)
			w.clock.Step(life/4 - time.Second) // The first token is about to expire.
			w.renewer.stored()
			if sent := w.sends(w.attach(w.config)); sent != e.Token {
				t.Error("the renewed token is not used")
			}
			w.clock.Step(time.Second)
			w.renewed()
		})
	}
}

func TestTheTokenOfAFormerKubeconfigGoesWhenItExpires(t *testing.T) {
	for name, lose := range losses() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.attach(w.config)
			w.clock.Step(life / 2)
			w.renewed()
			lose(w)
			w.expectNoRenewal()
			w.waitStored(true)
			w.eventually(func() error { // The sweep may have set its timer a step ago.
				w.clock.Step(life / 4)
				if _, ok := w.stored(); ok {
					return errors.New("the token is still there")
				}
				return nil
			})
			if passed := w.clock.Since(start); passed < 3*life/2 {
				t.Errorf("it went after %s, before it expired", passed)
			}
		})
	}
}

func TestFewTokensOfFormerKubeconfigsAreKept(t *testing.T) {
	w := newWorld(t)
	r := newRenewer(w)
	data := map[string][]byte{}
	add := func(fingerprint string, age, life time.Duration) string {
		raw, err := json.Marshal(entry{
			Fingerprint: fingerprint, Token: issued(account, start, life), Renewed: start.Add(-age),
		})
		if err != nil {
			t.Fatal(err)
		}
		data[keyOf("id", fingerprint)] = raw
		return keyOf("id", fingerprint)
	}
	r.current["id"] = "now"
	add("now", 9*time.Hour, time.Hour)
	add("last", 0, time.Hour)
	add("earlier", 30*time.Minute, time.Hour)
	want := []string{
		add("expired", time.Hour, time.Hour), add("one too many", 40*time.Minute, time.Hour),
		add("of another year", 24*time.Hour, 9000*time.Hour), "id",
	}
	data["id"] = data[keyOf("id", "last")] // of an earlier version
	keys, next := r.outdated(data)
	slices.Sort(keys)
	slices.Sort(want)
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if wanted := start.Add(30 * time.Minute); !next.Equal(wanted) {
		t.Errorf("the next one is to go at %s, want %s", next, wanted)
	}
}

func TestABrokenSecretInterruptsTheRenewal(t *testing.T) {
	w := newWorld(t)
	c := w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	w.renewer.Pause(key())
	w.clock.Step(life / 2)
	w.waitStatus(expires(e.Renewed.Add(life), "cannot be used"))
	if sent := w.sends(c); sent != e.Token || len(w.target.requests()) != 1 {
		t.Error("the renewal goes on, or the token is not used any more")
	}
	w.renewer.Keep(key(), w.config)
	w.renewed()
}

func TestAConnectionThatGoesOnWithoutASecretDoesNotContinueTheRenewal(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	w.renewer.End(key())
	c := w.attachAgain(w.config)
	w.clock.Step(life / 2)
	w.waitStatus(expires(e.Renewed.Add(life), "Secret is gone"))
	if sent := w.sends(c); sent != e.Token || len(w.target.requests()) != 1 {
		t.Error("the renewal goes on, or the token is not used any more")
	}
	w.renewer.Keep(key(), w.config) // The Secret is there again.
	w.renewed()
}

func TestTokensOfAnEmptiedSecretAreWrittenAgain(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	if _, err := w.secrets.CoreV1().Secrets(secretName().Namespace).Update(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretName().Namespace, Name: secretName().Name},
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := w.waitStored(true); again.Token != e.Token {
		t.Error("it is another token")
	}
}

func TestWithoutASecretTokensAreRenewedInMemory(t *testing.T) {
	w := newWorld(t)
	if err := w.secrets.CoreV1().Secrets(secretName().Namespace).Delete(
		t.Context(), secretName().Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c := w.attach(w.config)
	w.clock.Step(life / 2)
	w.waitStatus(expires(w.clock.Now().Add(life), "is lost when the manager restarts: Secret admiralty/tokens"))
	if w.sends(c) == w.config.BearerToken {
		t.Error("the renewed token is not used")
	}
}

func TestATokenOfAnotherAccountIsNotUsed(t *testing.T) {
	w := newWorld(t)
	w.target.answer = func() (int, string) {
		return http.StatusCreated, issued("system:serviceaccount:admiralty:c9", w.clock.Now(), life)
	}
	c := w.attach(w.config)
	w.clock.Step(life / 2)
	w.waitStatus(expires(start.Add(life), "a token of another account (admiralty/c9)"))
	if w.sends(c) != w.config.BearerToken {
		t.Error("it is used")
	}
}

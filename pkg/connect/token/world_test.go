package token

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	life = 10 * time.Minute

	metricExpire = "multicluster_scheduler_target_credentials_expire_seconds"
)

// cluster is the API server of a target. It makes tokens.
type cluster struct {
	*httptest.Server

	mu       sync.Mutex // guards the fields below
	answer   func() (int, string)
	denies   bool     // says that the source may not renew its token
	asked    []int64  // the seconds of each TokenRequest
	accepted []string // the token of each request for the version

	requested int // the number of all requests
}

// serve starts a target's API server, which answers TokenRequests with a code, and a token if that is 201.
func serve(t *testing.T, answer func() (int, string)) *cluster {
	t.Helper()
	c := &cluster{answer: answer}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requested++
		if r.URL.Path == "/version" {
			c.accepted = append(c.accepted, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		}
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

// all returns the number of all requests.
func (c *cluster) all() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requested
}

// world is a source with one target.
type world struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	target   *cluster
	secrets  *fake.Clientset
	answers  atomic.Pointer[clienttesting.ReactionFunc] // what the API server answers about Secrets, unless nil
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
	w.secrets.PrependReactor("*", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if answer := w.answers.Load(); answer != nil {
			return (*answer)(a)
		}
		return false, nil, nil
	})
	w.client = clientfake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.ClusterTarget{}, &v1alpha1.Target{}).
		WithObjects(
			&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key().Name, UID: "1"}},
			&v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "c3", UID: "2"}},
		).Build()
	w.config = &rest.Config{Host: w.target.URL, BearerToken: issued(account, start, life)}
	w.config.Insecure = true
	w.run()
	return w
}

// answer has the API server of the source answer requests of a verb about Secrets.
func (w *world) answer(verb string, with func() (bool, runtime.Object, error)) {
	w.answers.Store(new(clienttesting.ReactionFunc(func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetVerb() != verb {
			return false, nil, nil
		}
		return with()
	})))
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

// secret returns the Secret of renewed tokens, as it is in the API server.
func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	secret, err := w.secrets.Tracker().Get(secrets, secretName().Namespace, secretName().Name)
	if err != nil {
		w.t.Fatal(err)
	}
	return secret.DeepCopyObject().(*corev1.Secret) //nolint:forcetypeassert // It is one.
}

// key is that of the target's entry in the Secret.
func (w *world) key() string { return keyOf(translate.TargetID(key()), fingerprintOf(w.config)) }

// stored returns the entry of the target in the Secret.
func (w *world) stored() (entry, bool) {
	w.t.Helper()
	var e entry
	raw, ok := w.secret().Data[w.key()]
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

// gather returns a metric, by its label.
func (w *world) gather(name string) map[string]float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name {
				all[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
			}
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

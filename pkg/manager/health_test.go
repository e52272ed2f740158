package manager

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
)

// noCertificate is a certificate that the manager could not issue yet.
type noCertificate struct{ fromFiles }

func (noCertificate) missing() error { return errors.New("not issued yet") }

func TestHealthFailsWhenTheWebhookDoesNotServe(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir)
	server := webhookServer(t, dir)
	request := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	check := healthy(fromFiles{}, server.StartedChecker())
	if check(request) == nil {
		t.Error("a manager whose webhook did not start is healthy")
	}
	if err := healthy(noCertificate{}, server.StartedChecker())(request); err != nil {
		t.Errorf("a manager that waits for a certificate is restarted: %v", err)
	}
	stop := serve(t, server)
	if err := check(request); err != nil {
		t.Errorf("a manager whose webhook serves is unhealthy: %v", err)
	}
	stop()
	if check(request) == nil {
		t.Error("a manager whose webhook stopped is healthy")
	}
}

func TestTheLogSaysOnceWhyAManagerIsNotReady(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	var failure error
	check := logged(func(*http.Request) error { return failure }, log)
	one, two := errors.New("one"), errors.New("two")
	for _, failure = range []error{nil, one, one, two, nil, two} {
		if err := check(nil); !errors.Is(err, failure) {
			t.Errorf("got %v, want %v", err, failure)
		}
	}
	if want := []string{"one", "two", "two"}; len(lines) != len(want) {
		t.Errorf("got %q, want reasons %q", lines, want)
	}
}

func TestReadinessWithCertManager(t *testing.T) {
	dir := t.TempDir()
	authority, other := issue(t, dir), issue(t, t.TempDir())
	for name, test := range map[string]struct {
		service string
		bundles [][]byte
		want    string // part of the error; empty if ready
	}{
		"the authority is in each webhook":         {"webhook", [][]byte{authority, authority}, ""},
		"the authority is in the bundle, too":      {"webhook", [][]byte{append(other, authority...)}, ""},
		"no authority is in the configuration yet": {"webhook", [][]byte{nil}, "CA injector"},
		"one webhook has no authority yet":         {"webhook", [][]byte{authority, nil}, `webhook "b"`},
		"another authority is in the webhook":      {"webhook", [][]byte{other}, "unknown authority"},
		"the certificate is for another service":   {"other", [][]byte{authority}, "other.admiralty.svc"},
	} {
		t.Run(name, func(t *testing.T) {
			files := fromFiles{dir, named("mcs"), configured(test.service, test.bundles)}
			err := files.ready(httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
	t.Run("the configuration does not exist", func(t *testing.T) {
		files := fromFiles{dir, named("mcs"), fake.NewClientBuilder().Build()}
		if files.ready(httptest.NewRequest(http.MethodGet, "/readyz", nil)) == nil {
			t.Error("a manager is ready that nobody can call")
		}
	})
}

// named returns the webhook configurations of a manager that plays both roles.
func named(name string) []client.Object {
	return configurations(configv1alpha1.Default(), name)
}

// configured returns a client with a mutating webhook configuration, whose webhooks a, b, … have these authorities,
// and a validating one, whose webhook z has the last of them.
func configured(service string, bundles [][]byte) client.Reader {
	meta := metav1.ObjectMeta{Name: "mcs"}
	reference := &admissionregistrationv1.ServiceReference{Namespace: "admiralty", Name: service}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}
	for i, bundle := range bundles {
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:         string(rune('a' + i)),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: reference, CABundle: bundle},
		})
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
	last := admissionregistrationv1.WebhookClientConfig{Service: reference, CABundle: bundles[len(bundles)-1]}
	validating.Webhooks = []admissionregistrationv1.ValidatingWebhook{{Name: "z", ClientConfig: last}}
	return fake.NewClientBuilder().WithObjects(mutating, validating).Build()
}

// serve runs a webhook server until stop, and returns once it serves.
func serve(t *testing.T, server webhook.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	eventually(t, func() error { return server.StartedChecker()(nil) })
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestATargetThatChecksNoEndpointsHasNoWebhook(t *testing.T) {
	config := configv1alpha1.Default()
	config.Endpoints.Check = new(false)
	for _, configuration := range configurations(config, "mcs") {
		if _, ofTarget := configuration.(*admissionregistrationv1.ValidatingWebhookConfiguration); ofTarget {
			t.Error("the manager waits for a webhook configuration that the chart does not make")
		}
	}
	*config.Roles.Source = false
	if left := configurations(config, "mcs"); len(left) > 0 {
		t.Errorf("a target has the webhook configurations %v", left)
	}
}

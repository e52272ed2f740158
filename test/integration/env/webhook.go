package env

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// ServeWebhook installs the chart's ValidatingWebhookConfiguration, and serves the webhooks that register adds. The API
// server calls them in place of the manager's Service. stop ends serving; the configuration stays until the test ends.
func (c *Cluster) ServeWebhook(t T, register func(webhook.Server)) (stop func()) {
	t.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, object := range Render(t, Release, "--show-only", "templates/webhook.yaml", "--set", "roles.source=false") {
		Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration))
	}
	options := &envtest.WebhookInstallOptions{
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{configuration},
	}
	Must(t, options.PrepWithoutInstalling())
	t.Cleanup(func() { Must(t, options.Cleanup()) })
	server := webhook.NewServer(webhook.Options{
		Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
	})
	register(server)
	stop = Run(t, server.Start)
	Eventually(t, func(context.Context) error { return server.StartedChecker()(nil) })
	Must(t, c.Client.Create(t.Context(), configuration))
	t.Cleanup(func() {
		Must(t, client.IgnoreNotFound(c.Client.Delete(context.WithoutCancel(t.Context()), configuration)))
	})
	return stop
}

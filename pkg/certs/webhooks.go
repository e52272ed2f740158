package certs

import (
	"context"
	"encoding/base64"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Webhook is how an API server calls one webhook of a configuration.
type Webhook struct {
	Name string
	admissionregistrationv1.WebhookClientConfig
}

// Webhooks reads a webhook configuration, mutating or validating, and returns its webhooks. The argument has the kind
// and the name, and stays as it is.
func Webhooks(ctx context.Context, reader client.Reader, configuration client.Object) ([]Webhook, error) {
	var webhooks []Webhook
	var err error
	switch configuration.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		found := &admissionregistrationv1.MutatingWebhookConfiguration{}
		err = reader.Get(ctx, client.ObjectKeyFromObject(configuration), found)
		for i := range found.Webhooks {
			webhooks = append(webhooks, Webhook{found.Webhooks[i].Name, found.Webhooks[i].ClientConfig})
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		found := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		err = reader.Get(ctx, client.ObjectKeyFromObject(configuration), found)
		for i := range found.Webhooks {
			webhooks = append(webhooks, Webhook{found.Webhooks[i].Name, found.Webhooks[i].ClientConfig})
		}
	default:
		err = fmt.Errorf("unexpected type %T", configuration)
	}
	if err != nil {
		return nil, fmt.Errorf("getting webhook configuration %q: %w", configuration.GetName(), err)
	}
	return webhooks, nil
}

// withAuthority returns the configuration that gives each of these webhooks the authorities, to be applied.
func withAuthority(
	configuration client.Object, webhooks []Webhook, bundle []byte,
) (runtime.ApplyConfiguration, error) {
	kind, err := apiutil.GVKForObject(configuration, scheme.Scheme)
	if err != nil {
		return nil, fmt.Errorf("looking up the kind of a webhook configuration: %w", err)
	}
	desired := &unstructured.Unstructured{Object: map[string]any{}}
	desired.SetGroupVersionKind(kind)
	desired.SetName(configuration.GetName())
	all := make([]any, 0, len(webhooks))
	for _, webhook := range webhooks {
		authority := map[string]any{"caBundle": base64.StdEncoding.EncodeToString(bundle)}
		all = append(all, map[string]any{"name": webhook.Name, "clientConfig": authority})
	}
	desired.Object["webhooks"] = all
	return client.ApplyConfigurationFromUnstructured(desired), nil
}

// byName returns the part of a cache that holds this object only.
func byName(object client.Object) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName())}
}

package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The server caches decisions for as long as a kubelet does.
const (
	authenticationTTL = 2 * time.Minute
	allowedTTL        = 5 * time.Minute
	deniedTTL         = 30 * time.Second
	reviewTimeout     = 10 * time.Second
)

// access authenticates and authorises callers.
type access struct {
	authenticator authenticator.Request
	authorizer    authorizer.UnconditionalAuthorizer
	// clientCA watches the ConfigMap with the client CA while it runs.
	clientCA *dynamiccertificates.ConfigMapCAController
}

func newAccess(client kubernetes.Interface) (*access, error) {
	clientCA, err := dynamiccertificates.NewDynamicCAFromConfigMapController("kubelet-api-client-ca",
		metav1.NamespaceSystem, "extension-apiserver-authentication", "client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("watching the cluster's client CA: %w", err)
	}
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:            client.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                backoff,
		CacheTTL:                           authenticationTTL,
		ClientCertificateCAContentProvider: clientCA,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("making the authenticator: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             allowedTTL,
		DenyCacheTTL:              deniedTTL,
		WebhookRetryBackoff:       backoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("making the authorizer: %w", err)
	}
	return &access{authenticator: authn, authorizer: authz, clientCA: clientCA}, nil
}

// authenticate returns the caller. If it cannot, it answers the request.
func (a *access) authenticate(w http.ResponseWriter, r *http.Request) (user.Info, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	response, ok, err := a.authenticator.AuthenticateRequest(r.WithContext(ctx))
	if err != nil {
		log.FromContext(ctx).V(1).Info("Unauthenticated request", "reason", err.Error())
	}
	if err != nil || !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return nil, false
	}
	return response.User, true
}

// authorize returns whether the user may use one of the verb's subresources of the node, or of all nodes if the name is
// empty. If not, it answers the request. The answer does not name the node: which node a pod has, and whether the pod
// exists, is not for everybody.
func (a *access) authorize(w http.ResponseWriter, r *http.Request, who user.Info, v *verb, nodeName string) bool {
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	for _, subresource := range v.nodeSubresources {
		decision, _, err := a.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: who, Verb: v.nodeVerb, APIVersion: "v1", Resource: "nodes", Subresource: subresource,
			Name: nodeName, ResourceRequest: true, Path: r.URL.Path,
		})
		if decision == authorizer.DecisionAllow {
			return true
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Reviewing access to the kubelet API failed", "user", who.GetName())
			const text = "The API server cannot check your rights right now; try again."
			http.Error(w, text, http.StatusInternalServerError)
			return false
		}
	}
	http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
		who.GetName(), v.nodeVerb, v.nodeSubresources), http.StatusForbidden)
	return false
}

package target

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/kubeconfig"
)

const defaultKey = "config"

// want is what a connection shall be: gone, a failure that needs no trying, or one to the cluster of config.
type want struct {
	// fingerprint is the same for two wants that ask for the same.
	fingerprint string
	gone        bool
	failure     *metav1.Condition
	config      *rest.Config
	self        bool // says that config is the manager's own
	// credentials tells people where the credentials come from.
	credentials string
}

// decideConnection reads what is wanted off a target's spec and the Secret that it names.
func decideConnection(spec v1alpha1.ClusterTargetSpec, secret secretState, self *rest.Config) want {
	if spec.KubeconfigSecret == nil {
		return want{
			fingerprint: "self",
			self:        true,
			config:      rest.CopyConfig(self),
			credentials: "this manager's own service account",
		}
	}
	reference := *spec.KubeconfigSecret
	if reference.Key == "" {
		reference.Key = defaultKey
	}
	secretName := types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	switch {
	case secret.err != nil:
		return failedWant(
			v1alpha1.ReasonSecretNotFound,
			fmt.Sprintf("Secret %s cannot be read (%s); the manager needs the rights get, list and watch for it",
				secretName, errorText(secret.err)),
		)
	case !secret.exists:
		return failedWant(
			v1alpha1.ReasonSecretNotFound,
			fmt.Sprintf("Secret %s does not exist; create it with a kubeconfig under the key %s, "+
				"or run kubectl multicluster connect", secretName, reference.Key),
		)
	}
	data, ok := secret.data[reference.Key]
	if !ok {
		return failedWant(
			v1alpha1.ReasonSecretKeyNotFound,
			fmt.Sprintf("Secret %s has no key %s, but %s; put the kubeconfig there, "+
				"or name the right key in spec.kubeconfigSecret.key", secretName, reference.Key, keyNames(secret.data)),
		)
	}
	config, err := kubeconfig.Parse(data, reference.Context)
	if err != nil {
		return failedWant(
			v1alpha1.ReasonInvalidKubeconfig,
			fmt.Sprintf("the kubeconfig in Secret %s, key %s, cannot be used: %s",
				secretName, reference.Key, err),
		)
	}
	sum := sha256.Sum256(slices.Concat([]byte(reference.Context), []byte{0}, data))
	return want{fingerprint: string(sum[:]), config: config, credentials: "those in Secret " + secretName.String()}
}

func failedWant(reason, message string) want {
	condition := disconnected(reason, message)
	return want{fingerprint: reason + " " + message, failure: &condition}
}

func keyNames(data map[string][]byte) string {
	if len(data) == 0 {
		return "none at all"
	}
	return strings.Join(slices.Sorted(maps.Keys(data)), ", ")
}

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

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/kubeconfig"
)

const defaultKey = "config"

// want is a desired connection to the cluster of config. There is none to make if the target is gone, or if failure
// says why no connection is possible.
type want struct {
	// fingerprint is the same for two wants of the same connection.
	fingerprint string
	gone        bool
	failure     *metav1.Condition
	config      *rest.Config
	self        bool // config is the manager's own
	// credentials says in messages where the credentials come from.
	credentials string
	// warning says what of the kubeconfig the next version refuses, or is empty.
	warning string
	// secret is where the credentials are: a want with another one does not go on with them.
	secret v1alpha1.ClusterKubeconfigSecret
	// unusable is why the Secret cannot be used now, if an earlier content of it is in use.
	unusable metav1.Condition
	// last is how a target that is gone was connected, or nil.
	last *want
	// pin is the ID of the cluster that the target shall lead to, and known that of the cluster that it led to last.
	// Either may be empty.
	pin, known string
	// wasConnected says whether Connected was True when it was written last.
	wasConnected bool
}

// decideConnection returns the connection for a target's spec and the Secret that the spec names. limits are those of a
// Target, or nil.
func decideConnection(
	spec v1alpha1.ClusterTargetSpec, secret secretState, self *rest.Config, limits *configv1alpha1.Tenants,
) want {
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
	name := types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	data, failure := kubeconfigIn(secret, name, reference.Key)
	if failure != nil {
		failure.secret, failure.pin = reference, spec.ClusterID
		return *failure
	}
	config, warning, err := parse(data, reference.Context, limits)
	w := want{
		config: config, warning: warning, secret: reference, pin: spec.ClusterID,
		credentials: "those in Secret " + name.String(),
	}
	if err != nil {
		failed := failedWant(v1alpha1.ReasonInvalidKubeconfig,
			fmt.Sprintf("the kubeconfig in Secret %s, key %s, cannot be used: %s", name, reference.Key, err))
		w.failure, w.fingerprint, w.warning = failed.failure, failed.fingerprint, ""
		return w
	}
	sum := sha256.Sum256(slices.Concat([]byte(reference.Context+"\x00"+spec.ClusterID+"\x00"), data))
	w.fingerprint = string(sum[:])
	return w
}

// endpoint says where the want leads to, and as whom and by whom an API server there is certified.
func (w want) endpoint() string {
	return strings.Join([]string{w.config.Host, w.config.ServerName, string(w.config.CAData)}, " ")
}

// parse parses a kubeconfig. The warning says what the limits forbid while they are not enforced.
func parse(
	data []byte, context string, limits *configv1alpha1.Tenants,
) (config *rest.Config, warning string, err error) {
	all := kubeconfig.Rules{AllowProxy: true, AllowInsecure: true}
	if limits == nil {
		config, err = kubeconfig.Parse(data, context, all)
		return config, "", err
	}
	rules := kubeconfig.Rules{AllowProxy: limits.AllowProxy, AllowInsecure: limits.AllowInsecure}
	config, err = kubeconfig.Parse(data, context, rules)
	if err == nil || limits.Enforce {
		return config, "", err
	}
	warning = err.Error() // If the limits are not the reason, there is another error, too.
	config, err = kubeconfig.Parse(data, context, all)
	return config, warning, err
}

// goOn returns the want to go on with if the Secret of w cannot be used: the last one, if it has worked with an earlier
// content of the same Secret. It returns w otherwise.
func (w want) goOn(last want, worked bool) want {
	if w.failure == nil || !worked || last.config == nil || last.self || w.secret != last.secret || w.pin != last.pin {
		return w
	}
	last.unusable = unusable(*w.failure)
	return last
}

// kubeconfigIn returns the kubeconfig under the key, or else a want that says why there is none.
func kubeconfigIn(secret secretState, name types.NamespacedName, key string) ([]byte, *want) {
	var failure want
	data, ok := secret.data[key]
	switch {
	case secret.err != nil:
		failure = failedWant(v1alpha1.ReasonSecretNotFound,
			fmt.Sprintf("Secret %s cannot be read (%s); the manager needs the rights get, list and watch for it",
				name, errorText(secret.err)))
	case !secret.exists:
		failure = failedWant(v1alpha1.ReasonSecretNotFound,
			fmt.Sprintf("Secret %s does not exist; create it with a kubeconfig under the key %s, "+
				"or run kubectl multicluster connect", name, key))
	case !ok:
		failure = failedWant(v1alpha1.ReasonSecretKeyNotFound,
			fmt.Sprintf("Secret %s has no key %s, but %s; put the kubeconfig there, "+
				"or name the right key in spec.kubeconfigSecret.key", name, key, keyNames(secret.data)))
	default:
		return data, nil
	}
	return nil, &failure
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

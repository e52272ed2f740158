package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/token"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/wake"
)

const (
	controllerName = "target"
	fieldOwner     = v1alpha1.FieldOwner + "-connected"

	// deadline bounds the requests of one reconciliation to the source cluster's API server. After an outage of this
	// API server, statuses are up to date again within lastRetry.
	deadline              = 30 * time.Second
	firstRetry, lastRetry = 5 * time.Millisecond, 10 * time.Second
)

// Options of New. All are required, except Tenants, Tokens and Holds.
type Options struct {
	// Client reads ClusterTargets, Targets and proxies from the manager's cache and writes to the source cluster.
	Client client.Client
	// APIReader reads from the source cluster's API server.
	APIReader client.Reader
	// Config is the manager's own. It is for reading Secrets, and for targets that are the source cluster itself.
	Config *rest.Config
	// Scheme has the kinds of api/v1alpha1, and the kinds that observers read and write through the targets' clients.
	Scheme *runtime.Scheme
	// Registry receives the connected targets.
	Registry *engage.Registry
	// Source identifies the source cluster. Only its own PodChaperons in a target are cached.
	Source translate.Source
	// Verifier returns that of the proofs of PodChaperons. It fails while there is no key; no target is engaged then.
	Verifier func() (gate.Verifier, error)
	// Holds acquires the Leases of targets. If it is nil, no Leases are held.
	Holds *hold.Process
	// Lead is the right to lead. Nothing is written to any target after its end. It may be nil.
	Lead wire.Right
	// Tenants limits Targets, which tenants write. The zero value only warns.
	Tenants configv1alpha1.Tenants
	// Tokens renews the tokens with which targets are connected. It may be nil.
	Tokens *token.Renewer
	// Addresses knows the source's own addresses, to which Targets must not lead. No target is engaged before it does.
	Addresses Addresses
	// Clock times health checks, retries and watches.
	Clock clock.WithTickerAndDelayedExecution
	// Recorder records events about ClusterTargets and Targets.
	Recorder events.EventRecorder
	// Metrics registers the metrics of the connections.
	Metrics prometheus.Registerer

	turns turns // New makes them.
}

// turns let ClusterTargets send large lists one after another, and Targets, too. Tenants, who write Targets, cannot
// take the turn of a ClusterTarget.
type turns struct{ clusterTargets, targets *wire.Turn }

func (t turns) of(key types.NamespacedName) *wire.Turn {
	if key.Namespace == "" {
		return t.clusterTargets
	}
	return t.targets
}

// Reconciler keeps ClusterTargets and Targets connected. It must run on the leader only.
type Reconciler struct {
	options Options

	writer      targetkind.Writer
	wake        *wake.Source
	secrets     *secrets
	connections *connections
	metrics     *metrics
}

// New returns a Reconciler, which does nothing before Register.
func New(options Options) (*Reconciler, error) {
	config := rest.CopyConfig(options.Config)
	config.QPS = -1
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for Secrets: %w", err)
	}
	options.turns = turns{clusterTargets: wire.NewTurn(), targets: wire.NewTurn()}
	source := &wake.Source{}
	return &Reconciler{
		options: options,
		writer: targetkind.Writer{
			Client: options.Client, Owner: fieldOwner, Clock: options.Clock,
			Passing: []string{
				v1alpha1.ConditionRestricted, v1alpha1.ConditionSecretUsable, v1alpha1.ConditionAwake,
				v1alpha1.ConditionResponsive,
			},
		},
		wake:        source,
		secrets:     newSecrets(clientset, source.Wake),
		connections: newConnections(options, source.Wake),
		metrics:     newMetrics(),
	}, nil
}

// Register adds the controller to a manager.
func (r *Reconciler) Register(mgr manager.Manager) error {
	if err := r.metrics.register(r.options.Metrics); err != nil {
		return fmt.Errorf("registering the metrics of controller %q: %w", controllerName, err)
	}
	if err := mgr.Add(r.connections); err != nil {
		return fmt.Errorf("adding the connections of controller %q: %w", controllerName, err)
	}
	if r.options.Holds != nil {
		if err := mgr.Add(&standby{connections: r.connections, elected: mgr.Elected()}); err != nil {
			return fmt.Errorf("adding the watches of a replica that does not lead: %w", err)
		}
	}
	err := builder.ControllerManagedBy(mgr).
		Named(controllerName).
		Watches(&v1alpha1.ClusterTarget{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.Target{}, &handler.EnqueueRequestForObject{}).
		WatchesRawSource(r.wake).
		WithOptions(controller.Options{
			ReconciliationTimeout: deadline,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				firstRetry,
				lastRetry,
			),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %q: %w", controllerName, err)
	}
	return nil
}

// Reconcile sets the connection for the target's spec and Secret, and writes the finding about it to the status.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	target := targetkind.New(request.NamespacedName)
	if err := r.options.Client.Get(ctx, request.NamespacedName, target); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, r.leaveTarget(ctx, request.NamespacedName)
		}
		return reconcile.Result{}, fmt.Errorf("getting target %q: %w", request.NamespacedName, err)
	}
	spec := targetkind.Spec(target)
	secret := secretState{}
	if spec.KubeconfigSecret == nil {
		r.secrets.release(request.NamespacedName)
	} else {
		secretKey := types.NamespacedName{Namespace: spec.KubeconfigSecret.Namespace, Name: spec.KubeconfigSecret.Name}
		secret = r.secrets.use(r.wake.Context(), request.NamespacedName, secretKey)
		if !secret.known { // The watch wakes the target.
			r.connections.await(request.NamespacedName, targetkind.Status(target))
			return reconcile.Result{}, r.writeStatus(ctx, target, finding{})
		}
	}
	decided := decideConnection(spec, secret, r.options.Config, r.options.limitsOf(request.NamespacedName))
	r.passKubeconfig(request.NamespacedName, secret, decided)
	wanted := r.connections.goOn(request.NamespacedName, decided)
	status := targetkind.Status(target)
	wanted.known = status.ClusterID
	wanted.wasConnected = meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionConnected)
	r.connections.set(r.wake.Context(), request.NamespacedName, wanted, &spec.PlacementPolicy)
	found := r.connections.findingAbout(request.NamespacedName, wanted)
	found.condition = withFences(found.condition)
	warnings := r.warnings(target, spec, wanted, found)
	if wanted.unusable.Type != "" {
		warnings = append(warnings, wanted.unusable)
	}
	return reconcile.Result{}, r.writeStatus(ctx, target, found, warnings...)
}

// passKubeconfig tells the renewer of tokens which kubeconfig the target's Secret has now.
func (r *Reconciler) passKubeconfig(key types.NamespacedName, secret secretState, wanted want) {
	switch {
	case wanted.failure == nil:
		r.options.Tokens.Keep(key, wanted.config)
	case secret.err == nil && !secret.exists:
		r.options.Tokens.End(key)
	default:
		r.options.Tokens.Pause(key)
	}
}

// leaveTarget ends the connection of a target that was deleted. It first asks the API server whether the target is
// gone, because a cache that lags must not cost the target its pods.
func (r *Reconciler) leaveTarget(ctx context.Context, key types.NamespacedName) error {
	err := r.options.APIReader.Get(ctx, key, targetkind.New(key))
	if !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("getting target %q: %w", key, err)
		}
		return nil // The cache lags, and its event follows.
	}
	r.secrets.release(key)
	r.connections.remove(ctx, key)
	r.metrics.forgetTarget(key)
	return nil
}

// writeStatus writes the finding, and the warnings. While there is no finding, the status that an earlier manager wrote
// stays, so that a restart does not make targets look unconnected.
func (r *Reconciler) writeStatus(
	ctx context.Context, target client.Object, found finding, warnings ...metav1.Condition,
) error {
	status := targetkind.Status(target)
	was := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected)
	if found.condition.Type == "" {
		if was != nil {
			return nil
		}
		found.condition = connecting()
	}
	key := client.ObjectKeyFromObject(target)
	if found.version == "" {
		found.version = status.KubernetesVersion
	}
	if found.epoch == 0 || found.epochOf == status.EpochOf && found.epoch < status.Epoch {
		found.epoch, found.epochOf = status.Epoch, status.EpochOf
	}
	r.metrics.set(key, found.condition, warnings...)
	conditions := append([]metav1.Condition{found.condition}, warnings...)
	observed := []metav1.Condition{awakeOf(found, status), responsiveOf(found, status)}
	for _, condition := range observed {
		if condition.Type != "" {
			conditions = append(conditions, condition)
		}
	}
	r.metrics.setAwake(key, observed[0])
	r.metrics.setResponsive(key, observed[1])
	written, err := r.writer.Write(ctx, target, v1alpha1.TargetStatus{
		NodeName:          translate.VirtualNodeName(key),
		KubernetesVersion: found.version,
		Epoch:             found.epoch,
		EpochOf:           found.epochOf,
		ClusterID:         cmp.Or(found.clusterID, status.ClusterID),
		Fences:            found.fencing.write(status),
		Conditions:        conditions,
	})
	if written && err == nil {
		r.recordChange(target, was, found.condition)
		r.recordWarnings(target, status, warnings)
		r.recordAwake(target, meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAwake), observed[0])
		r.recordResponsive(target, status, observed[1])
	}
	r.recordUnwritten(target, err)
	return client.IgnoreNotFound(err)
}

// recordUnwritten records an event if the API server refuses the status, because the custom resource definition lacks
// one of its fields, say. The status then shows what is no longer true. Errors that pass are no news.
func (r *Reconciler) recordUnwritten(target client.Object, err error) {
	answer := apierrors.APIStatus(nil)
	if !errors.As(err, &answer) {
		return
	}
	switch answer.Status().Code {
	case http.StatusNotFound, http.StatusConflict, http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return
	}
	r.options.Recorder.Eventf(target, nil, corev1.EventTypeWarning, v1alpha1.ReasonStatusNotWritten, "Connect",
		"the API server refuses this status, so the one that it shows may be wrong: %s; are the custom resource "+
			"definitions of the manager's version, and may the manager patch the status?",
		wire.Shorten(answer.Status().Message, maxText))
}

// recordChange records an event if the connection changed.
func (r *Reconciler) recordChange(target client.Object, was *metav1.Condition, is metav1.Condition) {
	if is.Status == metav1.ConditionUnknown || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	eventType := corev1.EventTypeWarning
	if is.Status == metav1.ConditionTrue && is.Reason != v1alpha1.ReasonInvalidSummary {
		eventType = corev1.EventTypeNormal
	}
	r.options.Recorder.Eventf(target, nil, eventType, is.Reason, "Connect", "%s", is.Message)
}

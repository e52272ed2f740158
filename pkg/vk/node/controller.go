package node

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/wake"
)

const (
	controllerName = "virtual-node"
	fieldOwner     = v1alpha1.FieldOwner + "-ready"

	// deadline bounds the requests of one reconciliation. After an outage of the API server, the nodes are up to date
	// again within lastRetry. This matters, because the leases have expired by then, and the nodes are Unknown.
	deadline              = 30 * time.Second
	firstRetry, lastRetry = 5 * time.Millisecond, 10 * time.Second
)

// Options of New. All are required except LastRenewal, Address and Tenants.
type Options struct {
	// Client reads ClusterTargets, Targets and Nodes from the manager's cache and writes to the source cluster. The
	// cache must hold virtual nodes with their annotations.
	Client client.Client
	// Proxies lists proxies by their node.
	Proxies *podcache.ByNode
	// APIReader reads from the source cluster's API server.
	APIReader client.Reader
	// Config is the manager's own. virtual-kubelet writes Nodes and Leases with it.
	Config *rest.Config
	// Registry holds the engaged targets. The Reconciler must observe it.
	Registry *engage.Registry
	// Source identifies the source cluster. The requests of its own delegates in a target count as allocatable.
	Source translate.Source
	// LastRenewal returns when this source may have sent the last renewal of its Lease in a target, and the zero time
	// if it sent none. Without LastRenewal, it sends none.
	LastRenewal func(target types.NamespacedName) time.Time
	// Tenants limits the labels of the virtual nodes of Targets.
	Tenants configv1alpha1.Tenants
	// Clock returns the time of transitions.
	Clock clock.PassiveClock
	// Address and Port lead API servers of the source to our kubelet API. Without Address, nodes have no address.
	Address string
	Port    int32
	// Recorder records events about virtual nodes.
	Recorder events.EventRecorder
}

// Reconciler keeps the virtual nodes. It must run on the leader only.
type Reconciler struct {
	options Options

	writer  targetkind.Writer
	clients kubernetes.Interface
	wake    wake.Source

	mu      sync.Mutex // guards the fields below
	runners map[types.NamespacedName]*runner
	keys    map[string]types.NamespacedName // the targets by the names of their nodes
	// notReady is since when this process wants nodes NotReady.
	notReady map[types.NamespacedName]time.Time
}

var _ engage.Observer = &Reconciler{}

// New returns a Reconciler, which does nothing before Register.
func New(options Options) (*Reconciler, error) {
	config := rest.CopyConfig(options.Config)
	config.QPS = -1
	config.Timeout = timeouts.Request
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for Nodes and Leases: %w", err)
	}
	return &Reconciler{
		options: options,
		writer:  targetkind.Writer{Client: options.Client, Owner: fieldOwner, Clock: options.Clock},
		clients: clients,
		runners: map[types.NamespacedName]*runner{},
		keys:    map[string]types.NamespacedName{},

		notReady: map[types.NamespacedName]time.Time{},
	}, nil
}

// Register adds the controller to a manager.
func (r *Reconciler) Register(mgr manager.Manager) error {
	err := builder.ControllerManagedBy(mgr).
		Named(controllerName).
		Watches(&v1alpha1.ClusterTarget{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.Target{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.targetOf)).
		WatchesRawSource(&r.wake).
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

// Engaged makes the virtual node follow the target's ClusterSummary.
func (r *Reconciler) Engaged(ctx context.Context, target *engage.Target) error {
	changed := func(*v1alpha1.ClusterSummary) { r.wake.Wake(target.Key) }
	return engage.OnEvents(ctx, target, &v1alpha1.ClusterSummary{}, changed, changed)
}

// Reconcile ensures the virtual node of a target, and writes the target's condition Ready.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	target := targetkind.New(key)
	if err := r.options.Client.Get(ctx, key, target); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, r.removeNode(ctx, key)
		}
		return reconcile.Result{}, fmt.Errorf("getting target %q: %w", key, err)
	}
	r.remember(key)
	f, err := r.readFacts(ctx, target)
	if err != nil {
		return reconcile.Result{}, err
	}
	if f.existing != nil && !isVirtual(f.existing) {
		r.stopRunner(key)
		return reconcile.Result{}, r.writeCondition(ctx, target, conflictCondition(f.existing.Name))
	}
	r.noteReadiness(f)
	next, err := r.ensureRunner(ctx, f)
	if err == nil {
		err = r.ensureSpec(ctx, f)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: nextLook(f, next)}, r.writeCondition(ctx, target, targetCondition(f))
}

// everyLabel matches all labels: nobody knows which ones an expression that cannot be used excludes.
var everyLabel = regexp.MustCompile("")

func (r *Reconciler) readFacts(ctx context.Context, target client.Object) (facts, error) {
	key := client.ObjectKeyFromObject(target)
	f := facts{
		key:       key,
		status:    targetkind.Status(target),
		clusterID: r.options.Source.ClusterID,
		address:   r.options.Address,
		port:      r.options.Port,
		now:       metav1.NewTime(r.options.Clock.Now()),
	}
	if key.Namespace != "" && r.options.Tenants.Enforce {
		f.allowed = r.options.Tenants.AllowsLabel
	}
	if expression := targetkind.Spec(target).ExcludedLabelsRegexp; expression != "" {
		var err error
		if f.excluded, err = translate.CompileExpression(expression); err != nil {
			f.excluded, f.invalid = everyLabel, err
		}
	}
	var err error
	if f.existing, err = r.getNode(ctx, r.options.Client, translate.VirtualNodeName(key)); err != nil {
		return facts{}, err
	}
	f.notReadySince = r.notReadySince(key)
	if f.spared, err = r.isSpared(ctx, f); err != nil {
		return facts{}, err
	}
	f.summary, err = r.getSummary(ctx, key)
	return f, err
}

// getNode returns a node, or nil if it does not exist.
func (r *Reconciler) getNode(ctx context.Context, reader client.Reader, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := reader.Get(ctx, types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting node %q: %w", name, err)
	}
	return node, nil
}

// getSummary returns the target's ClusterSummary, or nil if the target is not engaged. The object belongs to the
// target's cache, so nobody may change it.
func (r *Reconciler) getSummary(ctx context.Context, key types.NamespacedName) (*v1alpha1.ClusterSummary, error) {
	target, ok := r.options.Registry.ByKey(key)
	if !ok {
		return nil, nil
	}
	summary := &v1alpha1.ClusterSummary{}
	err := target.Client.Get(
		ctx,
		types.NamespacedName{Name: v1alpha1.ClusterSummaryName},
		summary,
		client.UnsafeDisableDeepCopy,
	)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting the ClusterSummary of target %q: %w", key, err)
	}
	return summary, nil
}

// removeNode deletes the Node and the Lease of a target that was deleted. It first asks the API server whether the
// target is gone, because the pods of a Node are deleted with it.
func (r *Reconciler) removeNode(ctx context.Context, key types.NamespacedName) error {
	err := r.options.APIReader.Get(ctx, key, targetkind.New(key))
	if !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("getting target %q: %w", key, err)
		}
		return nil // The cache lags, and its event follows.
	}
	if !r.stopRunner(key) {
		return nil
	}
	name := translate.VirtualNodeName(key)
	node, err := r.getNode(ctx, r.options.APIReader, name)
	if err != nil || node == nil || !isVirtual(node) {
		r.forget(name)
		return err
	}
	err = r.options.Client.Delete(ctx, node, client.Preconditions{UID: &node.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting node %q: %w", name, err)
	}
	if !r.forget(name) {
		r.recordUnseen(ctx, key, node)
	}
	return r.deleteLease(ctx, name)
}

// remember remembers which target the node of its name belongs to.
func (r *Reconciler) remember(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[translate.VirtualNodeName(key)] = key
}

// forget forgets the target of a node, and returns whether this process has seen the target.
func (r *Reconciler) forget(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, seen := r.keys[node]
	delete(r.notReady, r.keys[node])
	delete(r.keys, node)
	return seen
}

func (r *Reconciler) deleteLease(ctx context.Context, name string) error {
	err := r.clients.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting lease %q: %w", name, err)
	}
	return nil
}

func (r *Reconciler) writeCondition(ctx context.Context, target client.Object, ready metav1.Condition) error {
	_, err := r.writer.Write(ctx, target, v1alpha1.TargetStatus{Conditions: []metav1.Condition{ready}})
	return client.IgnoreNotFound(err)
}

// targetOf returns the target that has the node's name. For other virtual nodes, whose target may be gone, it returns
// the target that the node names.
func (r *Reconciler) targetOf(_ context.Context, object client.Object) []reconcile.Request {
	r.mu.Lock()
	key, ok := r.keys[object.GetName()]
	r.mu.Unlock()
	if node, isNode := object.(*corev1.Node); !ok && isNode && isVirtual(node) {
		key = namedBy(node)
	}
	if key.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// namedBy returns the target that a virtual node names, or an empty key. Labels shorten long names, so they count only
// for nodes of earlier versions, which have nothing else.
func namedBy(node *corev1.Node) types.NamespacedName {
	if key, ok := keyOfProvider(node.Spec.ProviderID); ok {
		return key
	}
	if name := node.Labels[v1alpha1.LabelClusterTargetName]; name != "" {
		return types.NamespacedName{Name: name}
	}
	return types.NamespacedName{
		Namespace: node.Labels[v1alpha1.LabelTargetNamespace], Name: node.Labels[v1alpha1.LabelTargetName],
	}
}

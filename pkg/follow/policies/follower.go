package policies

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	workersName = "policies"
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second
	// stepsPerSecond is how many policies are looked at, after stepsBurst. Others wait. Those of one namespace have a
	// part of it, so that no namespace keeps events from others.
	stepsPerSecond, stepsBurst         = 2, 50
	stepsOfNamespace, burstOfNamespace = 0.1, 5
	// stepLater is how long a policy waits that the budget does not allow.
	stepLater = 10 * time.Second
	// maxLooked is how many proxies the API server is asked for. Delegates of some may be subject to the policy.
	maxLooked = 10
)

// Options configures a Follower. All fields are required.
type Options struct {
	// Config reaches the source's API server, without a client-side rate limit.
	Config *rest.Config
	// Proxies reads the manager's cache of pods.
	Proxies client.Reader
	// APIReader reads from the source's API server.
	APIReader client.Reader
	// TargetOf returns the engaged target of a virtual node.
	TargetOf func(nodeName string) (*engage.Target, bool)
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// KeepLabels says whether delegates have the labels of their pods under their own keys, too, unless a target's
	// policy says otherwise.
	KeepLabels bool
	// Clock measures the time since the last event about a policy.
	Clock clock.PassiveClock
	// Recorder records events about NetworkPolicies of the source.
	Recorder events.EventRecorder
	// Logger is for messages about more than one policy.
	Logger logr.Logger
}

// Follower records events about NetworkPolicies that select elected pods. It is safe for concurrent use.
type Follower struct {
	options Options

	policies toolscache.SharedIndexInformer
	workers  *engage.Workers[types.NamespacedName]
	budget   *rate.Limiter

	mu      sync.Mutex // guards all that follows
	records map[types.NamespacedName]record
	// budgets are those of namespaces that have policies.
	budgets map[string]*rate.Limiter
}

var _ manager.LeaderElectionRunnable = &Follower{}

// New makes a Follower, which does nothing before Start.
func New(options Options) (*Follower, error) {
	config := rest.CopyConfig(options.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	f := &Follower{
		options: options,
		policies: networkinginformers.NewNetworkPolicyInformer(clientset, metav1.NamespaceAll, 0,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}),
		budget:  rate.NewLimiter(stepsPerSecond, stepsBurst),
		records: map[types.NamespacedName]record{},
		budgets: map[string]*rate.Limiter{},
	}
	f.workers = engage.NewWorkers(engage.WorkersOptions[types.NamespacedName]{
		Name: workersName, Reconciler: reconcile.TypedFunc[types.NamespacedName](f.reconcile), Count: 1,
		FirstRetry: firstRetry, LastRetry: lastRetry, Logger: options.Logger,
	})
	return f, nil
}

// NeedLeaderElection returns true: one replica records events.
func (f *Follower) NeedLeaderElection() bool { return true }

// Start works until ctx ends. It is called once.
func (f *Follower) Start(ctx context.Context) error {
	failed := f.logTrouble()
	if err := f.policies.SetTransform(trimmed); err != nil {
		return fmt.Errorf("preparing the watch of NetworkPolicies: %w", err)
	}
	if err := f.policies.SetWatchErrorHandlerWithContext(failed); err != nil {
		return fmt.Errorf("preparing the watch of NetworkPolicies: %w", err)
	}
	if _, err := f.policies.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.changed(nil, o) },
		UpdateFunc: f.changed,
		DeleteFunc: func(o any) { f.changed(o, nil) },
	}); err != nil {
		return fmt.Errorf("watching NetworkPolicies: %w", err)
	}
	if err := f.workers.Start(ctx); err != nil {
		return err
	}
	f.policies.RunWithContext(ctx)
	return nil
}

// logTrouble returns a handler of errors of the watch. Nothing but events is lost.
func (f *Follower) logTrouble() toolscache.WatchErrorHandlerWithContext {
	forbidden := sync.OnceFunc(func() {
		f.options.Logger.Info("NetworkPolicies that do not apply in targets get no event without the right to list " +
			"and watch NetworkPolicies")
	})
	return func(_ context.Context, _ *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			forbidden()
			return
		}
		f.options.Logger.V(1).Info("The watch of NetworkPolicies ended", "reason", err.Error())
	}
}

// changed enqueues a policy that is new, or selects other pods than before, and forgets what is known of the old one.
func (f *Follower) changed(before, after any) {
	old, _ := watch.Unwrap[*networkingv1.NetworkPolicy](before)
	policy, _ := watch.Unwrap[*networkingv1.NetworkPolicy](after)
	if old != nil && policy != nil && old.UID == policy.UID && isInTargets(old) == isInTargets(policy) &&
		equality.Semantic.DeepEqual(old.Spec.PodSelector, policy.Spec.PodSelector) {
		return
	}
	if old != nil {
		f.forget(client.ObjectKeyFromObject(old))
	}
	for _, one := range []*networkingv1.NetworkPolicy{old, policy} {
		if one != nil {
			f.workers.Queue.Add(client.ObjectKeyFromObject(one))
		}
	}
}

// Placing notes that a pod is about to go to a target. It reads memory only.
func (f *Follower) Placing(pod *corev1.Pod, target *engage.Target) {
	found, _ := f.policies.GetIndexer().ByIndex(toolscache.NamespaceIndex, pod.Namespace)
	for _, object := range found {
		if policy, ok := object.(*networkingv1.NetworkPolicy); ok && f.isNews(policy) &&
			f.escapes(policy, pod, target) {
			key := client.ObjectKeyFromObject(policy)
			f.update(key, func(r *record) { r.seen = pod.Name })
			f.workers.Queue.Add(key)
		}
	}
}

// isNews says whether an event about the policy would be news, and none is due.
func (f *Follower) isNews(policy *networkingv1.NetworkPolicy) bool {
	r := f.recordOf(client.ObjectKeyFromObject(policy))
	return r.seen == "" && !r.isFresh(f.options.Clock.Now()) && !isInTargets(policy)
}

// escapes says whether a policy selects a pod, and not its delegate. Another cluster has no policies of this one. A
// delegate in the source itself is subject to the policies that select its labels. Without target, the pod has none
// yet.
func (f *Follower) escapes(policy *networkingv1.NetworkPolicy, pod *corev1.Pod, target *engage.Target) bool {
	if !selects(policy, pod.Labels) {
		return false
	}
	if target == nil || !target.Itself {
		return true
	}
	of, err := translate.DelegateLabels(pod, f.options.Source, translate.Destination{
		Target: target.Key, KeepLabels: ptr.Deref(target.Policy().KeepLabels, f.options.KeepLabels),
	})
	return err == nil && !selects(policy, of)
}

func (f *Follower) reconcile(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	policy, now := f.policyOf(key), f.options.Clock.Now()
	if policy == nil {
		f.forget(key)
		return reconcile.Result{}, nil
	}
	r := f.recordOf(key)
	next := decide(policy, r, now)
	if next == nothing {
		return reconcile.Result{}, nil
	}
	if !f.budgetOf(key.Namespace).AllowN(now, 1) {
		return reconcile.Result{RequeueAfter: stepLater}, nil
	}
	if next == look {
		if some, err := f.hasProxies(ctx, key.Namespace); err != nil || !some {
			return reconcile.Result{}, err // Scheduling notes the pods that come.
		}
	}
	if !f.budget.AllowN(now, 1) {
		return reconcile.Result{RequeueAfter: stepLater}, nil
	}
	pod := r.seen
	if next == look {
		var err error
		if pod, err = f.look(ctx, policy); err != nil {
			return reconcile.Result{}, err
		}
		if f.policyOf(key) != policy {
			return reconcile.Result{RequeueAfter: stepLater}, nil // It may select other pods by now.
		}
	}
	if pod == "" {
		f.update(key, func(r *record) { r.looked = true })
		return reconcile.Result{}, nil
	}
	f.recordNotFollowed(policy, pod)
	f.update(key, func(r *record) { *r = record{looked: true, said: now} })
	return reconcile.Result{}, nil
}

// policyOf returns a policy, or nil if it does not exist.
func (f *Follower) policyOf(key types.NamespacedName) *networkingv1.NetworkPolicy {
	object, _, _ := f.policies.GetIndexer().GetByKey(key.String())
	policy, _ := object.(*networkingv1.NetworkPolicy)
	return policy
}

// hasProxies says whether the manager's cache has proxies in a namespace. It does not have their labels.
func (f *Follower) hasProxies(ctx context.Context, namespace string) (bool, error) {
	pods := &corev1.PodList{}
	err := f.options.Proxies.List(ctx, pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		if translate.IsProxy(&pods.Items[i]) {
			return true, nil
		}
	}
	return false, nil
}

// look returns the name of a proxy whose delegate is not subject to the policy, or will not be. It is empty if there is
// none among those that it asks for.
func (f *Follower) look(ctx context.Context, policy *networkingv1.NetworkPolicy) (string, error) {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return "", nil // Nothing but a change of the policy helps.
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	pods := &corev1.PodList{}
	if err := f.options.APIReader.List(ctx, pods, client.InNamespace(policy.Namespace),
		client.MatchingLabelsSelector{Selector: selector}, client.Limit(maxLooked),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(
			"spec.schedulerName", v1alpha1.SchedulerName)},
	); err != nil {
		return "", fmt.Errorf("looking for proxies: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		target, _ := f.options.TargetOf(pod.Spec.NodeName)
		if translate.IsProxy(pod) && !translate.Finished(pod.Status.Phase) && f.escapes(policy, pod, target) {
			return pod.Name, nil
		}
	}
	return "", nil
}

func (f *Follower) recordOf(key types.NamespacedName) record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[key]
}

// budgetOf returns the budget of a namespace's policies.
func (f *Follower) budgetOf(namespace string) *rate.Limiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.budgets[namespace] == nil {
		f.budgets[namespace] = rate.NewLimiter(stepsOfNamespace, burstOfNamespace)
	}
	return f.budgets[namespace]
}

// forget forgets a policy, and its namespace if that has no policies any more.
func (f *Follower) forget(key types.NamespacedName) {
	left, _ := f.policies.GetIndexer().ByIndex(toolscache.NamespaceIndex, key.Namespace)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.records, key)
	budget, now := f.budgets[key.Namespace], f.options.Clock.Now()
	if len(left) == 0 && budget != nil && budget.TokensAt(now) >= burstOfNamespace {
		delete(f.budgets, key.Namespace) // Not before: whoever creates and deletes policies has one budget.
	}
}

func (f *Follower) update(key types.NamespacedName, change func(*record)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.records[key]
	change(&r)
	f.records[key] = r
}

// trimmed is a transform that keeps what identifies a policy, and what decide and selects read.
func trimmed(object any) (any, error) {
	policy, ok := object.(*networkingv1.NetworkPolicy)
	if !ok {
		return object, nil
	}
	kept := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: policy.Namespace, Name: policy.Name, UID: policy.UID, ResourceVersion: policy.ResourceVersion,
		},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: policy.Spec.PodSelector},
	}
	if value, ok := policy.Annotations[v1alpha1.AnnotationUseExisting]; ok {
		kept.Annotations = map[string]string{v1alpha1.AnnotationUseExisting: value}
	}
	return kept, nil
}

package fence

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/fence"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/presence"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const speed = 6

var (
	c1, c2   *env.Cluster
	registry *engage.Registry
	keys     *proof.Keys
	// fast is the clock of the parts under test.
	fast = env.FastClock(speed)
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "c1", "c2")
	c1, c2 = clusters[0], clusters[1]
	keys = proof.Generate(time.Now())
	manager := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	env.Create(t, c2, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	c2.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
		"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false"), manager)
	login := c2.Impersonate(manager)
	env.RunManager(t, login, func(mgr ctrl.Manager) error { return registerTarget(t, mgr, login) })
	env.RunManager(t, c1.Config, func(mgr ctrl.Manager) error { return registerSource(t, mgr) })
}

// registerTarget adds the parts of the target's manager.
func registerTarget(t env.T, mgr ctrl.Manager, login *rest.Config) error {
	clientset, err := kubernetes.NewForConfig(login)
	if err != nil {
		return err
	}
	delegates := chaperon.New(mgr.GetClient(), mgr.GetAPIReader(), fast, mgr.GetEventRecorder("delegates"), "")
	watch := fence.New(fence.Options{
		Client: mgr.GetClient(), Clients: clientset, Namespace: env.LeasesNamespace, Wake: delegates.Wake,
		Clock: fast, Logger: mgr.GetLogger(),
	})
	delegates.FenceBy(watch.Silent)
	present := &presence.Presence{
		Leases: clientset.CoordinationV1().Leases(env.LeasesNamespace), Holder: "c2", Fences: true, Clock: fast,
		Logger: mgr.GetLogger(),
	}
	for _, part := range []interface{ Start(context.Context) error }{watch, present} {
		if err := mgr.Add(part); err != nil {
			return err
		}
	}
	if err := delegates.Register(mgr); err != nil {
		return err
	}
	return source.New(source.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Recorder:              mgr.GetEventRecorder("sources"),
		SourceClusterRoleName: env.SourceRole, LeavingClusterRoleName: env.LeavingRole,
		SummaryViewerClusterRoleName: env.SummaryViewerRole, EarlierClusterRoleName: env.EarlierRole,
		ReleaseNamespace: env.ReleaseNamespace, LeasesNamespace: env.LeasesNamespace,
	}).Register(t.Context(), mgr)
}

// registerSource adds the source's feedback.
func registerSource(t env.T, mgr ctrl.Manager) error {
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	f := feedback.New(feedback.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Proxies:  podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
		Source:   translate.Source{ClusterID: "c1"},
		Keys:     func() (*proof.Keys, error) { return keys, nil },
		Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
	})
	registry = engage.NewRegistry(f)
	return f.Register(mgr)
}

// origin is a source in c2, with a cluster ID of its own.
type origin struct {
	id    string
	user  string // in c2
	login *rest.Config
	lease types.NamespacedName
}

// connect creates a service account and its ClusterSource in c2, and returns the source once it has a Lease.
func connect(t *testing.T, clusterID string) origin {
	t.Helper()
	return connectBy(t, clusterID, env.ReleaseNamespace, func(account string) client.Object {
		return clusterSource(account, clusterID)
	})
}

// connectBy creates a service account in a namespace of c2, and an object that makes it a source. The source says that
// it has the cluster ID.
func connectBy(t *testing.T, clusterID, namespace string, by func(account string) client.Object) origin {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "source-"}}
	o := origin{id: clusterID, login: c2.Token(t, account)}
	env.Create(t, c2, by(account.Name))
	o.user = env.ServiceAccountUser(account.Namespace, account.Name)
	env.WaitFor(t, c2, o.grant(), func(grant *v1alpha1.SourceGrant) error {
		if grant.Status.Lease == nil {
			return fmt.Errorf("status is %+v", grant.Status)
		}
		o.lease = types.NamespacedName{Namespace: grant.Status.Lease.Namespace, Name: grant.Status.Lease.Name}
		return nil
	})
	return o
}

// clusterSource returns a ClusterSource of a service account of the release namespace.
func clusterSource(account, clusterID string) *v1alpha1.ClusterSource {
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Spec: v1alpha1.ClusterSourceSpec{
			ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: account},
			ClusterID:      clusterID,
		},
	}
}

// grant returns the SourceGrant of the source, to be read.
func (o origin) grant() *v1alpha1.SourceGrant {
	return &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(o.user)}}
}

// renew has the source hold its Lease until it falls silent. A hold lapses after two seconds, as the clock is fast. If
// the machine is that slow, the source takes its Lease again, as a manager does.
func (o origin) renew(t *testing.T) (fallSilent func()) {
	t.Helper()
	process := hold.New(hold.Options{ClusterID: o.id, Name: "leader", Clock: fast})
	process.Lead()
	life, end := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(end)
	c := env.ClientFor(t, o.login)
	acquire := func(ctx context.Context) (*hold.Hold, error) {
		return process.Acquire(ctx, life, hold.Request{Client: c, Lease: o.lease})
	}
	var held *hold.Hold
	env.Eventually(t, func(ctx context.Context) (err error) { // Its rights may not have arrived.
		held, err = acquire(ctx)
		return err
	})
	go wait.UntilWithContext(life, func(ctx context.Context) {
		<-held.Context().Done()
		if again, err := acquire(ctx); err == nil {
			held = again
		}
	}, 100*time.Millisecond)
	return end
}

// lastHeard returns when the Lease was renewed last, on the fast clock.
func (o origin) lastHeard(t *testing.T) time.Time {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: env.Meta(o.lease.Namespace, o.lease.Name)}
	env.Get(t, c2, lease)
	return lease.Spec.RenewTime.Time
}

// placed is a pod in both clusters.
type placed struct {
	proxy    *corev1.Pod
	chaperon *v1alpha1.PodChaperon
	delegate *corev1.Pod
}

// place plays the scheduler of a source, and the target's kubelet: the delegate runs. The proxies of other sources than
// c1 are nowhere. In c1, its feedback would give their PodChaperons the cluster ID of c1.
func place(t *testing.T, in *env.Target, name, clusterID string, after time.Duration) placed {
	t.Helper()
	p, key := placed{proxy: env.Proxy(in.Key.Namespace, name)}, in.Key
	if clusterID == "c1" {
		env.Create(t, c1, p.proxy)
	} else {
		p.proxy.UID, key.Name = uuid.NewUUID(), clusterID
	}
	var err error
	p.chaperon, err = translate.Chaperon(p.proxy, translate.Source{ClusterID: clusterID}, translate.Destination{
		Target: key, Proof: keys.Sign(proof.ClaimOf(p.proxy, key)), Fence: after,
	})
	env.Must(t, err)
	p.chaperon.Spec.RestartPolicy = corev1.RestartPolicyAlways
	env.Create(t, c2, p.chaperon)
	if clusterID == "c1" {
		env.Bind(t, c1, p.proxy, in.NodeName)
	}
	p.delegate = &corev1.Pod{ObjectMeta: env.Meta(p.chaperon.Namespace, p.chaperon.Name)}
	p.delegate = env.WaitFor(t, c2, p.delegate, func(*corev1.Pod) error { return nil })
	env.Bind(t, c2, p.delegate, "node")
	env.ChangeStatus(t, c2, p.delegate, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	env.WaitFor(t, c2, p.chaperon, func(c *v1alpha1.PodChaperon) error {
		if c.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s", c.Status.Phase)
		}
		return nil
	})
	return p
}

// lose deletes a delegate, as somebody in the target does.
func (p placed) lose(t *testing.T) {
	t.Helper()
	env.Delete(t, c2, p.delegate)
	p.confirm(t)
}

// confirm plays the kubelet: the containers of a terminating delegate have ended.
func (p placed) confirm(t *testing.T) {
	t.Helper()
	zero := int64(0)
	pod := env.Get(t, c2, &corev1.Pod{ObjectMeta: env.Meta(p.delegate.Namespace, p.delegate.Name)})
	env.Must(t, c2.Client.Delete(t.Context(), pod, &client.DeleteOptions{GracePeriodSeconds: &zero}))
	env.WaitGone(t, c2, pod)
}

// lost says why a PodChaperon has no delegate; empty if it has one.
func lost(c *v1alpha1.PodChaperon) string {
	if condition := translate.PodCondition(c.Status.Conditions, v1alpha1.ConditionDelegate); condition != nil {
		return condition.Reason
	}
	return ""
}

// waitFor waits until a PodChaperon says why it has no delegate.
func (p placed) waitFor(t *testing.T, reason string) {
	t.Helper()
	env.WaitFor(t, c2, p.chaperon, func(c *v1alpha1.PodChaperon) error {
		if got := lost(c); got != reason {
			return fmt.Errorf("the delegate is lost because of %q, want %q", got, reason)
		}
		return nil
	})
}

// expectRunning checks that nobody has touched the delegate.
func (p placed) expectRunning(t *testing.T, what string) {
	t.Helper()
	pod := env.Get(t, c2, &corev1.Pod{ObjectMeta: env.Meta(p.delegate.Namespace, p.delegate.Name)})
	if pod.UID != p.delegate.UID || pod.DeletionTimestamp != nil {
		t.Errorf("%s: the delegate was stopped", what)
	}
	if reason := lost(env.Get(t, c2, p.chaperon)); reason != "" {
		t.Errorf("%s: the delegate is lost because of %s", what, reason)
	}
}

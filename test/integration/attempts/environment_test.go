package attempts

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhooks "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/admission"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// world is in a target cluster with the chart's roles and policies. The tests share it, and leave it as it was.
var (
	target *env.Cluster
	world  *attempts.World
)

// used are the addresses that useAddresses gives to objects.
func used() attempts.Addresses {
	return attempts.Addresses{
		Pod: "10.1.9.7", PodNAT64: "64:ff9b::a01:907", Delegate: "10.1.9.8", Node: "10.1.8.1", Bridge: "10.1.9.1",
		Service: "10.1.7.1", Server: "10.1.6.1",
	}
}

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		target = env.Start(t, "target")[0]
		for _, namespace := range []string{env.ReleaseNamespace, attempts.Shop, attempts.Deselected, attempts.Other} {
			labels := map[string]string{}
			if namespace == attempts.Shop || namespace == attempts.Deselected {
				labels["team"] = "a"
			}
			env.Create(t, target, &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels},
			})
		}
		manager := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
		target.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy*.yaml",
			"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false"), manager)
		target.ServeWebhook(t, runManager(t, manager))
		var err error
		world, err = attempts.NewWorld(target.Client, target.Config, "", used())
		env.Must(t, err)
		connect(t)
		env.Must(t, world.Fill(t.Context(), target.Config))
		useAddresses(t)
		env.Change(t, target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attempts.Deselected}},
			func(n *corev1.Namespace) { n.Labels["team"] = "b" })
	})
}

// runManager runs the parts of the target's manager that give sources their rights, and limit where their endpoints
// lead. It returns what serves the webhook.
func runManager(t env.T, user string) func(webhooks.Server) {
	t.Helper()
	var leadsTo addresses.Endpoints
	env.RunManager(t, target.Impersonate(user), func(mgr ctrl.Manager) error {
		inUse, err := addresses.Register(mgr)
		if err != nil {
			return err
		}
		leadsTo = addresses.Endpoints{
			InUse: inUse, Ranges: addresses.RangesOf([]string{"10.0.0.0/12"}, addresses.AllowedForEndpoints),
		}
		return source.New(source.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Recorder:              mgr.GetEventRecorder("sources"),
			SourceClusterRoleName: env.SourceRole, LeavingClusterRoleName: env.LeavingRole,
			SummaryViewerClusterRoleName: env.SummaryViewerRole,
			EarlierClusterRoleName:       env.EarlierRole,
			ReleaseNamespace:             env.ReleaseNamespace, LeasesNamespace: env.LeasesNamespace,
		}).Register(t.Context(), mgr)
	})
	return func(server webhooks.Server) {
		reader, err := client.New(target.Impersonate(user), client.Options{Scheme: env.Scheme()})
		env.Must(t, err)
		admission.Register(server, reader, reader, leadsTo)
	}
}

// connect makes the identities.
func connect(t env.T) {
	t.Helper()
	teamA := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for name, c := range map[string]struct {
		who  string
		spec v1alpha1.ClusterSourceSpec
	}{
		"c1": {attempts.C1, v1alpha1.ClusterSourceSpec{ClusterID: "id-of-c1", NamespaceSelector: teamA}},
		"c2": {attempts.C2, v1alpha1.ClusterSourceSpec{ClusterID: "id-of-c2"}},
		"c0": {attempts.WithoutID, v1alpha1.ClusterSourceSpec{NamespaceSelector: teamA}},
	} {
		c.spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: name}
		addAccount(t, c.who, env.ReleaseNamespace, name)
		source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: c.spec}
		waitReady(t, source)
		allowRenewal(t, env.ReleaseNamespace, source)
	}
	addAccount(t, attempts.C3, attempts.Shop, "c3")
	source := &v1alpha1.Source{
		ObjectMeta: env.Meta(attempts.Shop, "c3"),
		Spec:       v1alpha1.SourceSpec{ServiceAccountName: "c3", ClusterID: "id-of-c3"},
	}
	env.Create(t, target, source)
	allowRenewal(t, attempts.Shop, source)
	env.Must(t, world.Add(attempts.Tenant, "tenant", target.User(t, "tenant")))
	target.BindRole(t, "tenant", attempts.Shop, "system:aggregate-to-edit")
}

// allowRenewal lets a source renew its token, as connect does.
func allowRenewal(t env.T, namespace string, source client.Object) {
	t.Helper()
	account := client.ObjectKey{Namespace: namespace, Name: source.GetName()}
	role, binding := cluster.Connection{}.Renewal(account, source)
	env.Create(t, target, role, binding)
}

// addAccount adds somebody with a token of a new service account.
func addAccount(t env.T, who, namespace, name string) {
	t.Helper()
	login := target.Token(t, &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, name)})
	env.Must(t, world.Add(who, env.ServiceAccountUser(namespace, name), login))
}

func waitReady(t env.T, object *v1alpha1.ClusterSource) {
	t.Helper()
	env.Create(t, target, object)
	env.Eventually(t, func(ctx context.Context) error {
		if err := target.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("conditions of %q are %+v", object.Name, object.Status.Conditions)
		}
		return nil
	})
}

// useAddresses gives addresses to a node, a pod, a delegate of c1, a Service and an API server.
func useAddresses(t env.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.1.9.0/24", []string{"10.1.9.0/24"}
	env.Create(t, target, node)
	env.ChangeStatus(t, target, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.8.1"}}
	})
	for name, address := range map[string]string{"used": "10.1.9.7", "delegate-of-c1": "10.1.9.8"} {
		pod := &corev1.Pod{ObjectMeta: env.Meta(attempts.Shop, name), Spec: env.PodSpec()}
		if name != "used" {
			pod.Labels = map[string]string{v1alpha1.LabelParentClusterID: "id-of-c1"}
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon", Name: name, UID: "1-2",
				Controller: new(true),
			}}
		}
		env.Create(t, target, pod)
		env.ChangeStatus(t, target, pod, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		})
	}
	fixed := &corev1.Service{ObjectMeta: env.Meta(attempts.Shop, "used")}
	fixed.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	fixed.Spec.ExternalIPs = []string{"10.1.7.1"}
	server := &discoveryv1.EndpointSlice{
		ObjectMeta:  env.Meta(metav1.NamespaceDefault, "another-api-server"),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.6.1"}}},
	}
	server.Labels = map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
	env.Create(t, target, fixed, server)
}

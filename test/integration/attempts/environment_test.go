package attempts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhooks "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/admission"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// world is a target cluster with the chart's roles and policies. The tests share it, and leave it as it was.
var world struct {
	target     *env.Cluster
	identities map[string]identity
}

// leaseOf returns the Lease of a source, and waits until the manager has made it.
func leaseOf(t env.T, user string) *coordinationv1.Lease {
	t.Helper()
	made := &coordinationv1.Lease{ObjectMeta: env.Meta(env.LeasesNamespace, translate.SourceGrantName(user))}
	env.Eventually(t, func(ctx context.Context) error {
		return world.target.Client.Get(ctx, client.ObjectKeyFromObject(made), made)
	})
	return made
}

// identity is somebody who makes attempts.
type identity struct {
	user  string
	host  string
	http  *http.Client
	lease *coordinationv1.Lease // nil without a Lease
}

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		world.target = env.Start(t, "target")[0]
		world.identities = map[string]identity{}
		for _, namespace := range []string{env.ReleaseNamespace, shop, left, other} {
			labels := map[string]string{}
			if namespace == shop || namespace == left {
				labels["team"] = "a"
			}
			env.Create(t, world.target, &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels},
			})
		}
		manager := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
		world.target.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy*.yaml",
			"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false"), manager)
		world.target.ServeWebhook(t, runManager(t, manager))
		connect(t)
		fill(t)
	})
}

// runManager runs the parts of the target's manager that give sources their rights, and limit where their endpoints
// lead. It returns what serves the webhook.
func runManager(t env.T, user string) func(webhooks.Server) {
	t.Helper()
	var leadsTo addresses.Endpoints
	env.RunManager(t, world.target.Impersonate(user), func(mgr ctrl.Manager) error {
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
		reader, err := client.New(world.target.Impersonate(user), client.Options{Scheme: env.Scheme()})
		env.Must(t, err)
		admission.Register(server, reader, reader, leadsTo)
	}
}

// connect makes the identities.
func connect(t env.T) {
	t.Helper()
	teamA := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for who, spec := range map[string]v1alpha1.ClusterSourceSpec{
		c1:        {ClusterID: "id-of-c1", NamespaceSelector: teamA},
		c2:        {ClusterID: "id-of-c2"},
		withoutID: {NamespaceSelector: teamA},
	} {
		name := nameOf(who)
		spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: name}
		addAccount(t, who, env.ReleaseNamespace)
		source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		waitReady(t, source)
		allowRenewal(t, env.ReleaseNamespace, source)
	}
	addAccount(t, c3, shop)
	source := &v1alpha1.Source{
		ObjectMeta: env.Meta(shop, "c3"), Spec: v1alpha1.SourceSpec{ServiceAccountName: "c3", ClusterID: "id-of-c3"},
	}
	env.Create(t, world.target, source)
	allowRenewal(t, shop, source)
	for _, who := range []string{c1, c3} {
		i := world.identities[who]
		i.lease = leaseOf(t, i.user)
		world.identities[who] = i
	}
	addIdentity(t, tenant, "tenant", world.target.User(t, "tenant"))
	world.target.BindRole(t, "tenant", shop, "system:aggregate-to-edit")
}

// allowRenewal lets a source renew its token, as connect does.
func allowRenewal(t env.T, namespace string, source client.Object) {
	t.Helper()
	account := client.ObjectKey{Namespace: namespace, Name: source.GetName()}
	role, binding := cluster.Connection{}.Renewal(account, source)
	env.Create(t, world.target, role, binding)
}

// nameOf returns the name of a source.
func nameOf(who string) string { return strings.TrimSuffix(strings.Fields(who)[1], ",") }

func addAccount(t env.T, who, namespace string) {
	t.Helper()
	login := world.target.Token(t, &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, nameOf(who))})
	addIdentity(t, who, env.ServiceAccountUser(namespace, nameOf(who)), login)
}

func addIdentity(t env.T, who, user string, login *rest.Config) {
	t.Helper()
	c, err := rest.HTTPClientFor(login)
	env.Must(t, err)
	world.identities[who] = identity{user: user, host: strings.TrimSuffix(login.Host, "/"), http: c}
}

func waitReady(t env.T, object *v1alpha1.ClusterSource) {
	t.Helper()
	env.Create(t, world.target, object)
	env.Eventually(t, func(ctx context.Context) error {
		if err := world.target.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("conditions of %q are %+v", object.Name, object.Status.Conditions)
		}
		return nil
	})
}

// fill creates the objects at which attempts are made.
func fill(t env.T) {
	t.Helper()
	addAdministrator(t)
	for _, namespace := range []string{shop, left, other, system} {
		for _, k := range []kind{account, configMap, secret, claim, service, slice, ingress, pod} {
			put(t, administrator, namespace, "web", k, `"labels":{}`)
		}
	}
	for _, who := range []string{c1, c2} {
		name := nameOf(who)
		for _, k := range []kind{configMap, secret, account, service, slice} {
			put(t, who, shop, "of-"+name, k, copied(k, name))
		}
		put(t, who, shop, "of-"+name, chaperon, labelled(name))
	}
	put(t, c2, other, "of-c2", chaperon, labelled("c2"))
	put(t, c1, left, "of-c1", configMap, marked("c1"))
	put(t, c1, shop, "of-c1", claim, marked("c1"))
	put(t, c1, shop, "tracked-of-c1", configMap, marked("c1"))
	put(t, administrator, shop, "of-nobody", chaperon, `"labels":{}`)
	tracked := request{
		verb: "PATCH", path: configMap.path() + "/tracked-of-c1", contentType: mediaMerge,
		body: `{"metadata":{"annotations":{"argocd.argoproj.io/tracking-id":"x"}}}`,
	}
	expectDone(t, administrator, shop, tracked)
	put(t, c1, shop, "held-of-c1", configMap, marked("c1"))
	expectDone(t, administrator, shop, request{
		verb: "PATCH", path: configMap.path() + "/held-of-c1", contentType: mediaMerge,
		body: `{"metadata":{"finalizers":["example.org/hold"],` + owners + `}}`,
	})
	fillAsBefore(t)
	useAddresses(t)
	env.Change(t, world.target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: left}},
		func(n *corev1.Namespace) { n.Labels["team"] = "b" })
}

// administrator prepares objects. As c1, it makes a copy that the policy would not let c1 make.
const administrator = "administrator"

func addAdministrator(t env.T) {
	t.Helper()
	addIdentity(t, administrator, "admin", world.target.Config)
	addIdentity(t, "c1 with all rights", world.identities[c1].user,
		world.target.Impersonate(world.identities[c1].user, "system:masters"))
}

// fillAsBefore creates objects that an earlier version let c1 create.
func fillAsBefore(t env.T) {
	t.Helper()
	put(t, "c1 with all rights", shop, "old-of-c1", slice, endpointsOf("web", "c1"))
	put(t, "c1 with all rights", shop, "typed-of-c1", typed("example.org/any", ""), marked("c1"))
}

// useAddresses gives addresses to a node, a pod, a delegate of c1, a Service and an API server.
func useAddresses(t env.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.1.9.0/24", []string{"10.1.9.0/24"}
	env.Create(t, world.target, node)
	env.ChangeStatus(t, world.target, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.8.1"}}
	})
	for name, address := range map[string]string{"used": "10.1.9.7", "delegate-of-c1": "10.1.9.8"} {
		pod := &corev1.Pod{ObjectMeta: env.Meta(shop, name), Spec: env.PodSpec()}
		if name != "used" {
			pod.Labels = map[string]string{v1alpha1.LabelParentClusterID: "id-of-c1"}
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon", Name: name, UID: "1-2",
				Controller: new(true),
			}}
		}
		env.Create(t, world.target, pod)
		env.ChangeStatus(t, world.target, pod, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		})
	}
	fixed := &corev1.Service{ObjectMeta: env.Meta(shop, "used")}
	fixed.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	fixed.Spec.ExternalIPs = []string{"10.1.7.1"}
	server := &discoveryv1.EndpointSlice{
		ObjectMeta:  env.Meta(metav1.NamespaceDefault, "another-api-server"),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.6.1"}}},
	}
	server.Labels = map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
	env.Create(t, world.target, fixed, server)
}

// put creates an object, as soon as the identity may do so.
func put(t env.T, who, namespace, name string, k kind, metadata string) { //nolint:revive // reads like kubectl
	t.Helper()
	expectDone(t, who, namespace, request{
		verb: "POST", path: k.path(), contentType: mediaJSON, body: object(k, name, metadata),
	})
}

func expectDone(t env.T, who, namespace string, r request) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		code, answer, err := do(ctx, who, namespace, r)
		if err == nil && code >= http.StatusMultipleChoices {
			err = errors.New(answer)
		}
		return err
	})
}

// do makes the request and returns the answer of the API server.
func do(ctx context.Context, who, namespace string, r request) (code int, answer string, err error) {
	i := world.identities[who]
	replace := []string{
		"NS", namespace, "USER-OF-c1", world.identities[c1].user, "USER-OF-c2", world.identities[c2].user,
		"USER", i.user,
	}
	if i.lease != nil {
		replace = append(replace, "LEASE", i.lease.Name, "VERSION", i.lease.ResourceVersion)
	}
	fill := strings.NewReplacer(replace...)
	address, content := i.host+fill.Replace(r.path), strings.NewReader(fill.Replace(r.body))
	req, err := http.NewRequestWithContext(ctx, r.verb, address, content)
	if err != nil {
		return 0, "", err
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.as != "" {
		req.Header.Set("Impersonate-User", r.as)
	}
	response, err := i.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

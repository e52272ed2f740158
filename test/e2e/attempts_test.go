//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/attempts"
)

// attempted is the world in which the attempts are made: namespaces of c2, and identities there. c1 and c3 are sources
// that `kubectl multicluster connect` made. The names of all objects begin with that of the test's namespace.
type attempted struct {
	*world
	*attempts.World
	c1Login *rest.Config
}

// tableHere returns the attempts that can be made here. The others are made in test/integration/attempts.
func tableHere() []attempts.Attempt {
	table := slices.DeleteFunc(attempts.Table(), func(a attempts.Attempt) bool {
		return slices.Contains([]string{
			// The manager of c2 has already deleted these endpoints.
			"change endpoints that an earlier version let it add to a Service of the target",
			"annotate these endpoints",
			"delete these endpoints",
			// The chart of c2 allows all ranges, and its node has no range of pod addresses.
			"create endpoints that lead to an address out of range",
			"create endpoints that lead to a bridge of a node",
		}, a.What)
	})
	for i := range table {
		switch table[i].What {
		case "create endpoints that lead to a node", "create endpoints that lead to an API server":
			table[i].Says = "in use by a" // They have the same address here, so the answer names either.
		}
	}
	return table
}

func TestAttemptsOfRealSources(t *testing.T) {
	a := newAttempted(t)
	table := tableHere()
	if len(table) < 200 {
		t.Errorf("the table has %d attempts only", len(table))
	}
	eventually(t, "the answers of the table", func(ctx context.Context) error {
		different, err := a.Differences(ctx, table)
		if err == nil && len(different) > 0 {
			err = fmt.Errorf("%d of %d attempts:\n%s", len(different), len(table), strings.Join(different, "\n"))
		}
		return err
	})
	t.Logf("%d attempts", len(table))
	a.expectRefusedDelegates(t)
}

func newAttempted(t *testing.T) *attempted {
	t.Helper()
	a := &attempted{world: setUp(t)}
	a.createNamespaces(t)
	var err error
	a.World, err = attempts.NewWorld(a.c2, a.c2.config, a.namespace+"-", a.addresses(t))
	must(t, err)
	a.connectClusterSource(t)
	a.connectSource(t)
	a.addByHand(t)
	t.Cleanup(func() {
		if err := a.Release(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	must(t, a.Fill(t.Context(), a.c2.config))
	a.runDelegate(t)
	left := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.Namespace(attempts.Deselected)}}
	patch(t, a.c2, left, `{"metadata":{"labels":{"team":null}}}`) // c1 leaves it.
	return a
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, c *cluster, object client.Object, merge string) {
	t.Helper()
	if err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(merge))); err != nil {
		t.Fatalf("changing %T %s: %v", object, object.GetName(), err)
	}
}

func (a *attempted) createNamespaces(t *testing.T) {
	t.Helper()
	for _, name := range []string{attempts.Shop, attempts.Deselected, attempts.Other} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace + "-" + name}}
		if name != attempts.Other {
			namespace.Labels = map[string]string{"team": a.namespace}
		}
		create(t, a.c2, namespace)
	}
	create(t, a.c1, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace + "-" + attempts.Shop}})
}

// connectClusterSource makes ClusterSource c1.
func (a *attempted) connectClusterSource(t *testing.T) {
	t.Helper()
	name := a.namespace + "-c1"
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	a.c1Login = a.connected(t, target, "admiralty", name)
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch(t, a.c2, source, fmt.Sprintf(
		`{"spec":{"clusterID":"id-of-c1","namespaceSelector":{"matchLabels":{"team":%q}},`+
			`"delegates":{"podSecurity":{"level":"baseline"},"serviceAccountNames":["default"]}}}`, a.namespace))
	must(t, a.Add(attempts.C1, userOf("admiralty", "multicluster-source-"+name), a.c1Login))
}

// connectSource makes Source c3.
func (a *attempted) connectSource(t *testing.T) {
	t.Helper()
	shop := a.Namespace(attempts.Shop)
	target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: a.namespace}}
	login := a.connected(t, target, shop, "c3", "--namespaced", "-n", shop)
	source := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "c3"}}
	patch(t, a.c2, source, `{"spec":{"clusterID":"id-of-c3"}}`)
	must(t, a.Add(attempts.C3, userOf(shop, "multicluster-source-c3"), login))
}

// connected connects c1 to c2 as a source of this name, and returns the login that is in the target's Secret. Then it
// deletes the target, as a thief of the Secret has no manager.
func (a *attempted) connected(
	t *testing.T, target client.Object, secretNamespace, source string, flags ...string,
) *rest.Config {
	t.Helper()
	revoke := append([]string{"disconnect", "--revoke", "--target-context", "c2", "--source-name", source}, flags...)
	t.Cleanup(func() { multicluster(context.WithoutCancel(t.Context()), t, revoke...) })
	multicluster(t.Context(), t, append([]string{
		"connect", target.GetName(), "--source-context", "c1", "--target-context", "c2", "--source-name", source,
	}, flags...)...)
	secret := &corev1.Secret{}
	must(t, a.c1.Get(t.Context(), client.ObjectKey{Namespace: secretNamespace, Name: target.GetName()}, secret))
	login, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["config"])
	must(t, err)
	must(t, a.c1.Delete(t.Context(), target))
	gone(t, a.c1, target)
	must(t, client.IgnoreNotFound(a.c1.Delete(t.Context(), secret)))
	return login
}

// addByHand adds the other identities. They have accounts that no command made.
func (a *attempted) addByHand(t *testing.T) {
	t.Helper()
	for _, s := range []struct {
		who, name string
		spec      v1alpha1.ClusterSourceSpec
	}{
		{attempts.C2, a.namespace + "-c2", v1alpha1.ClusterSourceSpec{ClusterID: "id-of-c2"}},
		{attempts.WithoutID, a.namespace + "-c0", v1alpha1.ClusterSourceSpec{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"team": a.namespace},
		}}},
	} {
		s.spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: "admiralty", Name: s.name}
		a.addAccount(t, s.who, "admiralty", s.name)
		create(t, a.c2, &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: s.spec})
	}
	shop := a.Namespace(attempts.Shop)
	a.addAccount(t, attempts.Tenant, shop, "tenant")
	create(t, a.c2, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: shop, Name: "tenant"}},
	})
}

func (a *attempted) addAccount(t *testing.T, who, namespace, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	create(t, a.c2, account)
	request := &authenticationv1.TokenRequest{}
	must(t, a.c2.SubResource("token").Create(t.Context(), account, request))
	login := rest.AnonymousClientConfig(a.c2.config)
	login.BearerToken = request.Status.Token
	must(t, a.Add(who, userOf(namespace, name), login))
}

func userOf(namespace, name string) string { return "system:serviceaccount:" + namespace + ":" + name }

// delegateIP is an address that only the delegate of c1 has.
const delegateIP = "10.199.9.8"

// addresses returns addresses that c2 uses.
func (a *attempted) addresses(t *testing.T) attempts.Addresses {
	t.Helper()
	node := &corev1.Node{}
	must(t, a.c2.Get(t.Context(), client.ObjectKey{Name: "c2-node"}, node))
	api := &corev1.Service{}
	must(t, a.c2.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, api))
	managers, err := a.c2.managerPods(t.Context())
	must(t, err)
	used := attempts.Addresses{Delegate: delegateIP, Service: api.Spec.ClusterIP, Pod: managers[0].Status.PodIP}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			used.Node = address.Address
		}
	}
	ip, err := netip.ParseAddr(used.Pod)
	must(t, err)
	bytes := ip.As4()
	used.PodNAT64 = fmt.Sprintf("64:ff9b::%x%02x:%x%02x", bytes[0], bytes[1], bytes[2], bytes[3])
	used.Server = used.Node
	return used
}

// runDelegate gives an address to the delegate of c1, as a kubelet does. No kubelet has it.
func (a *attempted) runDelegate(t *testing.T) {
	t.Helper()
	delegate := &corev1.Pod{}
	key := client.ObjectKey{Namespace: a.Namespace(attempts.Shop), Name: "of-c1"}
	eventually(t, "the delegate of c1", func(ctx context.Context) error { return a.c2.Get(ctx, key, delegate) })
	running := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, delegateIP, delegateIP)
	err := a.c2.Status().Patch(t.Context(), delegate, client.RawPatch(types.MergePatchType, []byte(running)))
	must(t, err)
}

// expectRefusedDelegates makes PodChaperons with c1's token, whose delegates break the rules of its ClusterSource.
func (a *attempted) expectRefusedDelegates(t *testing.T) {
	t.Helper()
	c1, err := client.New(a.c1Login, client.Options{Scheme: a.c2.Scheme()})
	must(t, err)
	for name, change := range map[string]func(*corev1.PodSpec){
		"privileged": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
		"host-network": func(s *corev1.PodSpec) { s.HostNetwork = true },
		"host-pid":     func(s *corev1.PodSpec) { s.HostPID = true },
		"host-path": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/"},
			}}}
		},
		"account":         func(s *corev1.PodSpec) { s.ServiceAccountName = "web" },
		"account-of-c3":   func(s *corev1.PodSpec) { s.ServiceAccountName = "multicluster-source-c3" },
		"all-permissions": func(s *corev1.PodSpec) { capable(s, "ALL") },
	} {
		t.Run(name, func(t *testing.T) {
			chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
				Namespace: a.Namespace(attempts.Shop), Name: name,
				Labels: map[string]string{v1alpha1.LabelParentClusterID: "id-of-c1"},
			}, Spec: podTemplate(name).Spec}
			change(&chaperon.Spec)
			must(t, c1.Create(t.Context(), chaperon))
			a.expectRefused(t, chaperon)
		})
	}
}

func capable(spec *corev1.PodSpec, capability corev1.Capability) {
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{capability}},
	}
}

func (a *attempted) expectRefused(t *testing.T, chaperon *v1alpha1.PodChaperon) {
	t.Helper()
	key := client.ObjectKeyFromObject(chaperon)
	eventually(t, "the delegate to be refused", func(ctx context.Context) error {
		if err := a.c2.Get(ctx, key, chaperon); err != nil {
			return err
		}
		c := translate.PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionDelegate)
		if c == nil || c.Status != corev1.ConditionFalse || c.Reason != v1alpha1.ReasonDelegateRefused {
			return errors.New("it is not")
		}
		return nil
	})
	if err := a.c2.Get(t.Context(), key, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a delegate: %v", err)
	}
}

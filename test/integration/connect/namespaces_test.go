package connect

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// grantNamespaces gives a user the rights of a source in namespaces of c2.
func grantNamespaces(t *testing.T, user string, namespaces ...string) {
	t.Helper()
	for _, namespace := range namespaces {
		c2.BindRole(t, user, namespace, env.SourceRole)
	}
}

// newGrant creates the SourceGrant of a user, as the manager of c2 would, and lets the user read the ClusterSummary.
func newGrant(t *testing.T, user string, status v1alpha1.SourceGrantStatus) *v1alpha1.SourceGrant {
	t.Helper()
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(user)}}
	grant.Spec.UserName = user
	env.CreateForTest(t, c2, grant)
	publishGrant(t, grant, status)
	c2.BindRole(t, user, "", env.SummaryViewerRole)
	c2.Grant(t, user, "", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"sourcegrants"}, Verbs: []string{"get", "watch"},
		ResourceNames: []string{grant.Name},
	})
	return grant
}

func publishGrant(t *testing.T, grant *v1alpha1.SourceGrant, status v1alpha1.SourceGrantStatus) {
	t.Helper()
	env.ChangeStatus(t, c2, grant, func(g *v1alpha1.SourceGrant) { g.Status = status })
}

// seen returns an error unless the target's cache has these PodChaperons.
func seen(ctx context.Context, key types.NamespacedName, want ...*v1alpha1.PodChaperon) error {
	target, ok := registry.ByKey(key)
	if !ok {
		return fmt.Errorf("%s is not engaged", key)
	}
	list := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, list); err != nil {
		return err
	}
	var names, wanted []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	for _, chaperon := range want {
		wanted = append(wanted, chaperon.Name)
	}
	slices.Sort(names)
	if slices.Sort(wanted); !slices.Equal(names, wanted) {
		return fmt.Errorf("PodChaperons are %q, want %q", names, wanted)
	}
	return nil
}

func waitSeen(t *testing.T, key types.NamespacedName, want ...*v1alpha1.PodChaperon) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error { return seen(ctx, key, want...) })
}

// chaperonWatches returns how many watches of PodChaperons in one namespace c2 serves.
func chaperonWatches(t *testing.T) string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c2.Config)
	env.Must(t, err)
	metrics, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	env.Must(t, err)
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `verb="WATCH"`) &&
			strings.Contains(line, `resource="podchaperons"`) && strings.Contains(line, `scope="namespace"`) {
			return strings.TrimSpace(line[strings.LastIndex(line, " "):])
		}
	}
	return "0"
}

func TestASourceReadsPodChaperonsOfTheNamespacesThatItUsesOnly(t *testing.T) {
	ns := func() string { return env.Namespace(t, nil, c1, c2) }
	waits, used, leaving, idle, later, others := ns(), ns(), ns(), ns(), ns(), ns()
	login := c2.User(t, "carol")
	grantNamespaces(t, "carol", waits, used, leaving, idle, later)
	grant := newGrant(t, "carol", v1alpha1.SourceGrantStatus{
		Namespaces: []string{waits, used, idle, later}, Leaving: []string{leaving},
		Used: []string{used, "No namespace"},
	})
	env.CreateForTest(t, c1, env.Proxy(waits, "waits"))
	secret := env.Namespace(t, nil, c1)
	env.CreateForTest(t, c1, kubeconfigSecret(t, secret, login))
	key := types.NamespacedName{Name: secret}
	inWaits, inUsed := createChaperon(t, key, waits, "waits"), createChaperon(t, key, used, "orphan")
	inLeaving, inLater := createChaperon(t, key, leaving, "leaves"), createChaperon(t, key, later, "later")
	createChaperon(t, key, others, "others")
	before := chaperonWatches(t)
	createClusterTarget(t, secret)
	waitReady(t, key)

	// What may hold a delegate is known before the target is engaged.
	env.Must(t, seen(t.Context(), key, inWaits, inUsed, inLeaving))
	if now := chaperonWatches(t); before != "0" || now != "3" {
		t.Errorf("there were %s watches of namespaces, and are %s now, want 3", before, now)
	}
	grantStatus := grant.Status
	grantStatus.Used = []string{used, later}
	publishGrant(t, grant, grantStatus)
	waitSeen(t, key, inWaits, inUsed, inLeaving, inLater)

	target := engagedTarget(t, key)
	made := env.Chaperon(idle, "made", sourceID, key)
	env.Must(t, target.Client.Create(t.Context(), made))
	waitSeen(t, key, inWaits, inUsed, inLeaving, inLater, made)

	err := target.Client.Get(t.Context(), types.NamespacedName{Namespace: others, Name: "x"}, &v1alpha1.PodChaperon{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("reading in a namespace that is not granted: %v, want forbidden", err)
	}
}

func TestANamespaceThatIsGrantedLaterWorksWithinSeconds(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2)
	login := c2.User(t, "dave")
	grant := newGrant(t, "dave", v1alpha1.SourceGrantStatus{})
	env.CreateForTest(t, c1, env.Proxy(namespace, "waits"))
	key, _ := connect(t, login) // One namespace that is refused does not prevent the connection.
	chaperon := createChaperon(t, key, namespace, "waits")
	engaged := engagedTarget(t, key)
	parent := gate.ParentOf(chaperon).Key.String()
	err := engaged.Client.List(t.Context(), &v1alpha1.PodChaperonList{}, client.MatchingFields{"parent": parent})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing in a namespace that is refused: %v, want forbidden", err)
	}
	grantNamespaces(t, "dave", namespace)
	publishGrant(t, grant, v1alpha1.SourceGrantStatus{Namespaces: []string{namespace}})
	waitSeen(t, key, chaperon)
	if engagedTarget(t, key) != engaged {
		t.Error("the target was engaged anew")
	}
}

func TestATargetThatIsReadByNamespaceLosesItsCopiesWithTheTarget(t *testing.T) {
	ns := func() string { return env.Namespace(t, nil, c1, c2) }
	before, now, others := ns(), ns(), ns()
	grantNamespaces(t, "grace", before, now)
	newGrant(t, "grace", v1alpha1.SourceGrantStatus{
		Namespaces: []string{before, now}, Copied: []string{before, "No namespace"},
	})
	key, _ := connect(t, c2.User(t, "grace"))
	service := func(namespace string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: env.Meta(namespace, "web")}
		s.Labels = map[string]string{
			v1alpha1.LabelParentClusterID: sourceID, v1alpha1.LabelTargetHash: translate.TargetHash(key),
			v1alpha1.LabelTargetID: translate.TargetID(key),
		}
		s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		return s
	}
	named, made, unread := service(before), service(now), service(others)
	env.CreateForTest(t, c2, named, unread)
	env.Must(t, engagedTarget(t, key).Client.Create(t.Context(), made)) // The SourceGrant does not name it yet.
	env.Delete(t, c1, clusterTarget(key))
	env.WaitGone(t, c2, named)
	env.WaitGone(t, c2, made)
	if !env.Exists(t, c2, unread) {
		t.Error("a Service was deleted in a namespace that is not granted")
	}
}

func TestWhatIsCreatedJustBeforeATargetIsDeletedGoesWithIt(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2)
	grantNamespaces(t, "heidi", namespace)
	newGrant(t, "heidi", v1alpha1.SourceGrantStatus{Namespaces: []string{namespace}})
	for name, login := range map[string]*rest.Config{
		"read everywhere": c2Alice, "read by namespace": c2.User(t, "heidi"),
	} {
		t.Run(name, func(t *testing.T) {
			key, _ := connect(t, login)
			target := engagedTarget(t, key)
			made := env.Chaperon(namespace, "made", sourceID, key)
			env.Must(t, target.Client.Create(t.Context(), made))
			env.Delete(t, c1, clusterTarget(key))
			env.Eventually(t, func(context.Context) error {
				if env.Exists(t, c2, made) && made.DeletionTimestamp.IsZero() {
					return errors.New("the PodChaperon is not deleted")
				}
				return nil
			})
			late := env.Chaperon(namespace, "late", sourceID, key)
			env.Eventually(t, func(ctx context.Context) error {
				err := target.Client.Create(ctx, late.DeepCopy(), client.DryRunAll)
				if err == nil || !strings.Contains(err.Error(), "not connected to the target any more") {
					return fmt.Errorf("another PodChaperon can be created: error %v", err) //nolint:errorlint // or nil
				}
				return nil
			})
		})
	}
}

// TestATargetThatIsUpgradedTakesTheRightToReadEverywhere begins with a source that reads in the whole cluster.
func TestATargetThatIsUpgradedTakesTheRightToReadEverywhere(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2)
	login := c2.User(t, "erin")
	everywhere := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: env.SourceRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "erin"}},
	}
	env.CreateForTest(t, c2, everywhere)
	c2.BindRole(t, "erin", "", env.SummaryViewerRole)
	w := newWire(t, login)
	env.Eventually(t, func(ctx context.Context) error { // The API server learns of the binding.
		return env.ClientFor(t, login).List(ctx, &v1alpha1.PodChaperonList{})
	})
	key, _ := connect(t, w.login)
	proxy := env.Proxy(namespace, "runs", func(p *corev1.Pod) { p.Spec.NodeName = translate.VirtualNodeName(key) })
	env.CreateForTest(t, c1, proxy)
	chaperon := createChaperon(t, key, namespace, "runs")
	waitSeen(t, key, chaperon)
	first := engagedTarget(t, key)

	grantNamespaces(t, "erin", namespace)
	env.Delete(t, c2, everywhere)
	env.Eventually(t, func(ctx context.Context) error {
		if err := env.ClientFor(t, login).List(ctx, &v1alpha1.PodChaperonList{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("listing everywhere: %w, want forbidden", err)
		}
		return nil
	})
	w.end() // So the watch ends, and the next one is refused.
	env.Eventually(t, func(ctx context.Context) error {
		engaged, ok := registry.ByKey(key)
		if !ok || engaged == first || !engaged.Reachable() {
			return errors.New("the target is not engaged anew")
		}
		return seen(ctx, key, chaperon)
	})
}

// TestWhatNamespacesCost measures what namespaces cost a source that reads by namespace: a thousand that are granted
// and idle, and a hundred with PodChaperons. The log has the numbers.
func TestWhatNamespacesCost(t *testing.T) {
	const idle, used = 1000, 100
	status := v1alpha1.SourceGrantStatus{}
	for n := range used {
		name := fmt.Sprintf("used-%d", n)
		env.Create(t, c2, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		env.Create(t, c2, &rbacv1.RoleBinding{
			ObjectMeta: env.Meta(name, "frank"),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: env.SourceRole},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "frank"}},
		})
		status.Namespaces = append(status.Namespaces, name)
	}
	for n := range idle {
		status.Namespaces = append(status.Namespaces, fmt.Sprintf("idle-%d", n))
	}
	grant := newGrant(t, "frank", status)
	key, _ := connect(t, c2.User(t, "frank"))
	engagedTarget(t, key)
	quiet, watches := heap(), chaperonWatches(t)
	goroutines := runtime.NumGoroutine()
	t.Logf("%d idle namespaces: %s watches of PodChaperons", idle+used, watches)
	if watches != "0" {
		t.Errorf("idle namespaces are watched: %s", watches)
	}

	status.Used = status.Namespaces[:used]
	publishGrant(t, grant, status)
	env.Eventually(t, func(context.Context) error {
		if now := chaperonWatches(t); now != strconv.Itoa(used) {
			return fmt.Errorf("%s watches of PodChaperons, want %d", now, used)
		}
		return nil
	})
	t.Logf("%d used namespaces: %d KiB of heap and %d goroutines each",
		used, (heap()-quiet)/1024/used, (runtime.NumGoroutine()-goroutines)/used)
}

// heap returns the bytes in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

// cluster is a target with the reconcilers of both kinds.
type cluster struct {
	client.Client

	recorder *events.FakeRecorder
	clock    *clocktesting.FakePassiveClock
	missing  bool // the kind SourceGrant
	options  Options
	keeper   *grants.Keeper
	refused  error // what creations of service accounts are answered, unless it is nil
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		recorder: events.NewFakeRecorder(10),
		clock:    clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	create := func(ctx context.Context, to client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if _, ok := o.(*corev1.ServiceAccount); ok && c.refused != nil {
			return c.refused
		}
		return to.Create(ctx, o, options...)
	}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Source{}, &v1alpha1.ClusterSource{}).
		WithIndex(&rbacv1.RoleBinding{}, "clustersource", func(o client.Object) []string {
			name, _ := grants.SourceOf(o)
			return []string{name}
		}).WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
	c.options = Options{
		Client: c, APIReader: c, Clock: c.clock, Recorder: c.recorder, SourceClusterRoleName: "source",
		LeavingClusterRoleName: "source-leaving", SummaryViewerClusterRoleName: "viewer",
		EarlierClusterRoleName: "earlier",
	}
	c.keeper, err = grants.NewKeeper(grants.Options{
		Client: c, APIReader: c, Config: &rest.Config{}, FullClusterRoleName: "source",
		LeavingClusterRoleName: "source-leaving",
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reconcile reconciles a Source or, without a namespace, a ClusterSource.
func (c *cluster) reconcile(t *testing.T, namespace, name string) (ctrl.Result, error) {
	t.Helper()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	unpublished := func() bool { return c.missing }
	if namespace != "" {
		r := &reconciler[*v1alpha1.Source]{options: c.options, kind: sources(), unpublished: unpublished}
		return r.Reconcile(t.Context(), request)
	}
	r := &reconciler[*v1alpha1.ClusterSource]{
		options: c.options, kind: clusterSources(), keeper: c.keeper, unpublished: unpublished,
	}
	return r.Reconcile(t.Context(), request)
}

func (c *cluster) mustReconcile(t *testing.T, namespace, name string) ctrl.Result {
	t.Helper()
	result, err := c.reconcile(t, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// owners returns the service accounts with their owners: "namespace/name: UIDs".
func (c *cluster) owners(t *testing.T) []string {
	t.Helper()
	list := &corev1.ServiceAccountList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range list.Items {
		text := a.Namespace + "/" + a.Name + ":"
		for _, o := range a.OwnerReferences {
			text += " " + string(o.UID)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// condition returns a condition of a ClusterSource: "status reason message".
func (c *cluster) condition(t *testing.T, kind string) string {
	t.Helper()
	s := &v1alpha1.ClusterSource{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "c1"}, s); err != nil {
		t.Fatal(err)
	}
	found := meta.FindStatusCondition(s.Status.Conditions, kind)
	if found == nil {
		return ""
	}
	return fmt.Sprint(found.Status, " ", found.Reason, " ", found.Message)
}

func wantEqual[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// sourceOf is a Source with a service account, in the namespace team-a.
func sourceOf(name, account string) *v1alpha1.Source {
	s := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-" + name)}}
	s.Spec.ServiceAccountName = account
	return s
}

func clusterSourceC1() *v1alpha1.ClusterSource {
	s := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "uid-c1"}}
	s.Spec.UserName = "c1"
	s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	return s
}

func TestAServiceAccountGoesWithItsLastSource(t *testing.T) {
	c := newCluster(t, sourceOf("s1", "shared"), sourceOf("s2", "shared"))
	c.mustReconcile(t, "team-a", "s1")
	c.mustReconcile(t, "team-a", "s2")
	c.mustReconcile(t, "team-a", "s2") // It is an owner once.
	wantEqual(t, "accounts of two sources", []string{"team-a/shared: uid-s1 uid-s2"}, c.owners(t))

	c.changeAccount(t, "s1", "own")
	wantEqual(t, "accounts when one has another", []string{"team-a/own: uid-s1", "team-a/shared: uid-s2"}, c.owners(t))
	c.changeAccount(t, "s2", "own")
	wantEqual(t, "accounts when both have another", []string{"team-a/own: uid-s1 uid-s2"}, c.owners(t))
}

// changeAccount gives a Source another service account.
func (c *cluster) changeAccount(t *testing.T, name, account string) {
	t.Helper()
	s := &v1alpha1.Source{}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "team-a", Name: name}, s); err != nil {
		t.Fatal(err)
	}
	s.Spec.ServiceAccountName = account
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	c.mustReconcile(t, "team-a", name)
}

func TestAServiceAccountOfSomebodyElseStaysAsItIs(t *testing.T) {
	theirs := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "theirs"}}
	c := newCluster(t, sourceOf("s1", "theirs"), theirs)
	c.mustReconcile(t, "team-a", "s1")
	c.changeAccount(t, "s1", "own")
	wantEqual(t, "accounts", []string{"team-a/own: uid-s1", "team-a/theirs:"}, c.owners(t))
}

func TestASourceWithAUserNeedsNoServiceAccount(t *testing.T) {
	s := sourceOf("s1", "")
	s.Spec.UserName = "c1"
	c := newCluster(t, s)
	c.mustReconcile(t, "team-a", "s1")
	wantEqual(t, "accounts", nil, c.owners(t))
	right := &rbacv1.RoleBinding{}
	key := types.NamespacedName{Namespace: "team-a", Name: bindingPrefix + "s1"}
	if err := c.Get(t.Context(), key, right); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "who has the right", []rbacv1.Subject{
		{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "c1"},
	}, right.Subjects)
}

func TestTheRightToViewGoesWithTheSource(t *testing.T) {
	c := newCluster(t, sourceOf("s1", "own"))
	c.mustReconcile(t, "team-a", "s1")
	viewer := types.NamespacedName{Name: "multicluster-source-viewer:team-a:s1"}
	if err := c.Get(t.Context(), viewer, &rbacv1.ClusterRoleBinding{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), sourceOf("s1", "own")); err != nil {
		t.Fatal(err)
	}
	c.mustReconcile(t, "team-a", "s1")
	if err := c.Get(t.Context(), viewer, &rbacv1.ClusterRoleBinding{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ClusterRoleBinding, which has no owner: %v", err)
	}
}

func TestASourceThatIsBeingDeletedGetsNothing(t *testing.T) {
	s := sourceOf("s1", "own")
	s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/slow"}
	c := newCluster(t, s)
	c.mustReconcile(t, "team-a", "s1")
	wantEqual(t, "accounts", nil, c.owners(t))
}

// TestAClusterSourceSaysWhatItMayDo has the status written only when it changes.
func TestAClusterSourceSaysWhatItMayDo(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}
	c := newCluster(t, clusterSourceC1(), ns)
	if got := c.mustReconcile(t, "", "c1"); got.RequeueAfter != 0 {
		t.Errorf("the next look is after %s", got.RequeueAfter)
	}
	wantEqual(t, "Ready", `True Ready user "c1" may run pods in 1 namespaces (shop)`,
		c.condition(t, v1alpha1.ConditionReady))
	if got := c.condition(t, v1alpha1.ConditionRestricted); !strings.HasPrefix(got, "True Restricted ") {
		t.Errorf("Restricted: %s", got)
	}
	before := c.version(t)
	c.clock.SetTime(c.clock.Now().Add(time.Hour))
	c.mustReconcile(t, "", "c1")
	wantEqual(t, "version after a look that finds nothing new", before, c.version(t))

	c.missing = true
	if got := c.mustReconcile(t, "", "c1"); got.RequeueAfter != lastRetry {
		t.Errorf("the next look for the missing kind is after %s", got.RequeueAfter)
	}
	if got := c.condition(t, v1alpha1.ConditionReady); !strings.HasSuffix(got, "; "+grants.MissingKind) {
		t.Errorf("Ready: %s", got)
	}
	if len(c.recorder.Events) > 0 {
		t.Errorf("event %s", <-c.recorder.Events)
	}
}

func (c *cluster) version(t *testing.T) string {
	t.Helper()
	s := &v1alpha1.ClusterSource{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "c1"}, s); err != nil {
		t.Fatal(err)
	}
	return s.ResourceVersion
}

func TestAWrongSelectorIsReportedAndNotTriedAgain(t *testing.T) {
	s := clusterSourceC1()
	s.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}
	c := newCluster(t, s)
	c.mustReconcile(t, "", "c1")
	got := c.condition(t, v1alpha1.ConditionReady)
	if !strings.HasPrefix(got, "False InvalidSelector ") || !strings.Contains(got, "correct the selector") {
		t.Errorf("Ready: %s", got)
	}
	wantEqual(t, "Restricted, of which nothing is known", "", c.condition(t, v1alpha1.ConditionRestricted))
}

func TestAnotherProblemIsReportedAndTriedAgain(t *testing.T) {
	s := clusterSourceC1()
	s.Spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: "absent", Name: "c1"}
	c := newCluster(t, s)
	c.refused = apierrors.NewNotFound(corev1.Resource("namespaces"), "absent")
	_, err := c.reconcile(t, "", "c1")
	if !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
	want := `False Failed creating service account "absent/c1": namespaces "absent" not found`
	wantEqual(t, "Ready", want, c.condition(t, v1alpha1.ConditionReady))
}

// TestWhatTheNextVersionRefusesIsReportedOnce has a namespace that is left out by default, and was used before.
func TestWhatTheNextVersionRefusesIsReportedOnce(t *testing.T) {
	s := clusterSourceC1()
	s.Spec.NamespaceSelector = nil
	kept := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "multicluster-clustersource-kept:c1",
		Labels: map[string]string{grants.LabelSource: ""},
	}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "source"}}
	c := newCluster(t, s, kept, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	c.mustReconcile(t, "", "c1")
	c.mustReconcile(t, "", "c1")
	got := c.condition(t, v1alpha1.ConditionRestricted)
	if !strings.HasPrefix(got, "False WouldRefuse ") || !strings.Contains(got, ": kube-system. To keep them, ") {
		t.Errorf("Restricted: %s", got)
	}
	if len(c.recorder.Events) != 1 {
		t.Fatalf("%d events", len(c.recorder.Events))
	}
	if event := <-c.recorder.Events; !strings.HasPrefix(event, "Warning WouldRefuse ") {
		t.Errorf("event %s", event)
	}
}

func TestHowManyNamespacesAreNamed(t *testing.T) {
	var many []string
	for i := range namesShown + 1 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	ten := strings.Join(many[:namesShown], ", ")
	for want, outcome := range map[string]grants.Outcome{
		"0 namespaces":                {},
		"10 namespaces (" + ten + ")": {Namespaces: many[:namesShown]},
		"11 namespaces":               {Namespaces: many},
		"0 namespaces, and may only end its pods in " + ten:                 {Leaving: many[:namesShown]},
		"0 namespaces, and may only end its pods in " + ten + " and 1 more": {Leaving: many},
	} {
		wantEqual(t, "text", want, where("", &outcome))
	}
}

func TestWhichChangesOfNamespacesMatter(t *testing.T) {
	before := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}
	annotated, labelled, ends := before.DeepCopy(), before.DeepCopy(), before.DeepCopy()
	annotated.Annotations = map[string]string{"a": "b"}
	labelled.Labels["team"] = "b"
	ends.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for after, want := range map[*corev1.Namespace]bool{annotated: false, labelled: true, ends: true} {
		if got := labelsOrEnd().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != want {
			t.Errorf("%v matters: %t", after, got)
		}
	}
}

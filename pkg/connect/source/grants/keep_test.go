package grants

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// sourceC1 is the ClusterSource c1, which has the namespaces with a label.
func sourceC1() ClusterSource {
	return ClusterSource{
		Name: "c1", ClusterID: "id1", Users: []string{"c1"}, Subjects: userC1(),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "yes"}},
	}
}

func TestWhatASourceThatLeavesANamespaceMayDoThere(t *testing.T) {
	has := binding("ClusterRole", fullRole, "shop", fullPrefix+"c1")
	leaves, left := leavingPrefix+"c1: ClusterRole "+leavingRole, fullPrefix+"c1: ClusterRole "+fullRole
	for name, test := range map[string]struct {
		objects         []client.Object
		readable, other map[string]string // copies, by namespace
		anyCluster      bool              // the source has no cluster ID
		before          client.Object     // its right there
		want            []string
		open            []string // the sources that a change there concerns
	}{
		"it has a PodChaperon there": {
			objects: []client.Object{chaperon("shop", "id1")}, before: has, want: []string{"shop/" + leaves},
			open: []string{"c1"},
		},
		"any PodChaperon may be its own": {
			objects: []client.Object{chaperon("shop", "id2")}, anyCluster: true, before: has,
			want: []string{"shop/" + leaves}, open: []string{"c1"},
		},
		"it has a copy that it may read": {
			readable: map[string]string{"shop": "c1"}, before: has, want: []string{"shop/" + leaves},
			open: []string{"c1"},
		},
		"it has another copy": {
			other: map[string]string{"shop": "c1"}, before: has, want: []string{"shop/" + leaves}, open: []string{"c1"},
		},
		"it only had the right to leave, and has nothing there any more": {
			objects: []client.Object{chaperon("shop", "id2"), chaperon("other", "id1")},
			other:   map[string]string{"shop": "c2", "other": "c1"},
			before:  binding("ClusterRole", leavingRole, "shop", leavingPrefix+"c1"),
			open:    []string{"c1"}, // until the next round
		},
		"it never had a right": {objects: []client.Object{chaperon("shop", "id1")}},
		"the namespace is being deleted, and takes no RoleBinding": {
			objects: []client.Object{chaperon("shop", "id1"), terminating("gone")},
			before:  binding("ClusterRole", fullRole, "gone", fullPrefix+"c1"), want: []string{"gone/" + left},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]client.Object{namespace("shop"), namespace("other")}, test.objects...)
			if test.before != nil {
				objects = append(objects, test.before)
			}
			h, s := newHere(t, objects...), sourceC1()
			h.copied(t, h.keeper.copies[0], test.readable)
			h.copied(t, h.keeper.copies[1], test.other)
			if test.anyCluster {
				s.ClusterID = ""
			}
			h.keep(t, s)
			wantEqual(t, "bindings", test.want, h.bindings(t))
			wantEqual(t, "sources with an open question", test.open, nilIfEmpty(h.keeper.Concerned("shop")))
		})
	}
}

func nilIfEmpty(all []string) []string {
	if len(all) == 0 {
		return nil
	}
	return all
}

func terminating(name string) *corev1.Namespace {
	n := namespace(name)
	n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"example.com/slow"}
	return n
}

// TestASourceMayOnlyLeaveUntilItsCopiesAreListed does not take the last right of a source that may have copies.
func TestASourceMayOnlyLeaveUntilItsCopiesAreListed(t *testing.T) {
	h := newHere(t, namespace("shop"), binding("ClusterRole", fullRole, "shop", fullPrefix+"c1"))
	leaves := []string{"shop/" + leavingPrefix + "c1: ClusterRole " + leavingRole}
	outcome := h.keep(t, sourceC1())
	wantEqual(t, "outcome", Outcome{Leaving: []string{"shop"}}, outcome)
	h.copied(t, h.keeper.copies[0], nil)
	h.keep(t, sourceC1())
	wantEqual(t, "bindings while some kinds are listed", leaves, h.bindings(t))
	h.copied(t, h.keeper.copies[1], nil)
	h.keep(t, sourceC1())
	wantEqual(t, "bindings when all are listed", nil, h.bindings(t))
}

func TestWhyCopiesAreNotListedIsReportedIfItMatters(t *testing.T) {
	h := newHere(t, namespace("shop"), namespace("mine", "team"))
	which := h.keeper.copies[1]
	which.problems[which.newInformer()] = "no right"
	if got := h.keep(t, sourceC1()).Problem; got != "" {
		t.Errorf("problem of a source that leaves nothing: %q", got)
	}
	if err := h.Create(t.Context(), binding("ClusterRole", fullRole, "shop", fullPrefix+"c1")); err != nil {
		t.Fatal(err)
	}
	if got := h.keep(t, sourceC1()).Problem; got != "no right" {
		t.Errorf("problem %q", got)
	}
}

// TestAnUpgradeKeepsTheRightsOfBefore has the ClusterRoleBinding of an earlier version.
func TestAnUpgradeKeepsTheRightsOfBefore(t *testing.T) {
	h := newHere(t, namespace("shop"), namespace("mine", "team"), namespace("kube-system", "team"),
		namespace("unused"), chaperon("kube-system", "id1"), chaperon("shop", "id1"),
		binding("ClusterRole", "everything", "", everywherePrefix+"c1"))
	reads := earlierPrefix + "c1: ClusterRole " + earlierRole
	h.copied(t, h.keeper.copies[0], nil)

	// Copies may be anywhere, so the right in the whole cluster stays.
	first := Outcome{
		Namespaces: []string{"kube-system", "mine"}, Leaving: []string{"shop"}, WouldRefuse: []string{"kube-system"},
		Everywhere: true,
	}
	wantEqual(t, "outcome", first, h.keep(t, sourceC1()))
	wantEqual(t, "outcome of the next round, while copies are not listed", first, h.keep(t, sourceC1()))
	h.copied(t, h.keeper.copies[1], nil)

	all := []string{
		"kube-system/" + keptPrefix + "c1: ClusterRole " + fullRole,
		"mine/" + fullPrefix + "c1: ClusterRole " + fullRole,
		reads,
		everywherePrefix + "c1: ClusterRole everything",
		"shop/" + leavingPrefix + "c1: ClusterRole " + leavingRole,
	}
	slices.Sort(all)
	wantEqual(t, "bindings", all, h.bindings(t))
	last := first
	last.Everywhere = false
	wantEqual(t, "outcome when all is known", last, h.keep(t, sourceC1()))
	all = slices.DeleteFunc(all, func(b string) bool { return strings.HasPrefix(b, everywherePrefix) })
	wantEqual(t, "bindings when all is known", all, h.bindings(t))

	// What takes its place changes with the subjects, and does not come back.
	s := sourceC1()
	s.Subjects = append(s.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "also-c1"})
	h.keep(t, s)
	earlier := &rbacv1.ClusterRoleBinding{}
	if err := h.Get(t.Context(), client.ObjectKey{Name: earlierPrefix + "c1"}, earlier); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "subjects", s.Subjects, earlier.Subjects)
	if err := h.Delete(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	h.keep(t, s)
	if slices.Contains(h.bindings(t), reads) {
		t.Error("the right to read in the whole cluster is given again")
	}
}

// TestARightInTheWholeClusterEndsARoundLater has the cache of the API server's authorizer learn of the RoleBindings.
func TestARightInTheWholeClusterEndsARoundLater(t *testing.T) {
	h := newHere(t, namespace("mine", "team"), binding("ClusterRole", "everything", "", everywherePrefix+"c1"))
	if !h.keep(t, sourceC1()).Everywhere {
		t.Error("it ends in the round that makes the RoleBindings")
	}
	if h.keep(t, sourceC1()).Everywhere {
		t.Error("it does not end in the next round")
	}
}

func TestANamespaceThatCannotBeWrittenKeepsNoOthersWaiting(t *testing.T) {
	var objects []client.Object
	for i := range 6 {
		objects = append(objects, namespace(fmt.Sprintf("team-%d", i), "team"))
	}
	refused := apierrors.NewForbidden(rbacv1.Resource("rolebindings"), "", errors.New("no"))
	ends := apierrors.NewForbidden(rbacv1.Resource("rolebindings"), "", errors.New("it ends"))
	ends.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err     error
		refused int // so many namespaces
		want    int // problems that are named
		more    string
	}{
		"one":                       {err: refused, refused: 1, want: 1},
		"as many as are named":      {err: refused, refused: 3, want: 3},
		"more than are named":       {err: refused, refused: 5, want: 3, more: "and 2 more problems"},
		"namespaces that are gone":  {err: apierrors.NewNotFound(corev1.Resource("namespaces"), "x"), refused: 2},
		"namespaces that are ended": {err: ends, refused: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHere(t, objects...)
			h.fails = func(_ string, o client.Object) error {
				if o.GetNamespace() < fmt.Sprintf("team-%d", test.refused) {
					return test.err
				}
				return nil
			}
			_, err := h.keeper.Keep(t.Context(), sourceC1())
			if (err != nil) != (test.want > 0) {
				t.Fatalf("error %v", err)
			}
			if got := strings.Count(fmt.Sprint(err), "creating RoleBinding"); got != test.want {
				t.Errorf("%d problems are named: %v", got, err)
			}
			if named := strings.Contains(fmt.Sprint(err), "more problems"); named != (test.more != "") ||
				!strings.Contains(fmt.Sprint(err), test.more) {
				t.Errorf("error %v", err)
			}
			if got := len(h.bindings(t)); got != len(objects)-test.refused {
				t.Errorf("%d RoleBindings", got)
			}
		})
	}
}

// TestASourceIsNeverWithoutRights has the API server refuse to delete the RoleBinding that is to go.
func TestASourceIsNeverWithoutRights(t *testing.T) {
	h := newHere(t, namespace("shop"), chaperon("shop", "id1"),
		binding("ClusterRole", fullRole, "shop", fullPrefix+"c1"))
	h.fails = func(verb string, _ client.Object) error {
		if verb == "delete" {
			return errors.New("down")
		}
		return nil
	}
	if _, err := h.keeper.Keep(t.Context(), sourceC1()); err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("error %v", err)
	}
	if got := len(h.bindings(t)); got != 2 {
		t.Errorf("%d RoleBindings, want both", got)
	}
}

func TestOpenQuestions(t *testing.T) {
	q := &openQuestions{}
	q.ask("a") // Nobody listens.
	var reported []string
	f := func(sources []string) { reported = append(reported, strings.Join(sources, " ")) }
	q.answered.Store(&f)
	q.add("a", "c1")
	q.add("a", "c2")
	q.add("b", "c1")
	for _, namespace := range []string{"a", "b", "c", ""} {
		q.ask(namespace)
	}
	wantEqual(t, "reported", []string{"c1 c2", "c1", "c1 c2"}, reported)
	q.keep("c1", sets.New("a"))
	wantEqual(t, "sources that ask about b", []string{}, q.sources("b"))
	wantEqual(t, "sources that ask about a", []string{"c1", "c2"}, q.sources("a"))
	q.keep("c1", nil)
	wantEqual(t, "sources that ask about a without c1", []string{"c2"}, q.sources("a"))
	q.keep("c2", nil)
	if len(q.byNamespace) > 0 {
		t.Errorf("it remembers %v", q.byNamespace)
	}
}

func TestWhoseRoleBindingItIs(t *testing.T) {
	for name, want := range map[string]string{
		fullPrefix + "c1": "c1", keptPrefix + "c1": "c1", leavingPrefix + "c1": "c1",
		"cluster-admin": "", everywherePrefix + "c1": "", v1alpha1.LeaseManager: "",
	} {
		source, ok := SourceOf(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if source != want || ok != (want != "") {
			t.Errorf("%s is of %q: %t", name, source, ok)
		}
	}
}

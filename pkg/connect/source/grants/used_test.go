package grants

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// delays is a queue that notes after which delay a SourceGrant is due, by its name.
type delays struct {
	queue

	due map[string]time.Duration
}

func (d delays) Add(r reconcile.Request) { d.due[r.Name] = 0 }

func (d delays) AddAfter(r reconcile.Request, after time.Duration) { d.due[r.Name] = after }

// grantOf is the SourceGrant of a user.
func grantOf(user string, status v1alpha1.SourceGrantStatus) *v1alpha1.SourceGrant {
	return &v1alpha1.SourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(user)}, Status: status,
	}
}

func TestWhichSourceGrantsAPodChaperonConcerns(t *testing.T) {
	withheld := &v1alpha1.WithheldNamespaces{}
	c1 := translate.SourceGrantName("c1")
	for name, test := range map[string]struct {
		grants    []v1alpha1.SourceGrantStatus // of c1, c2
		namespace string
		want      map[string]time.Duration
	}{
		"a namespace that its user may use, which is not published as used": {
			grants: []v1alpha1.SourceGrantStatus{{Namespaces: []string{"a"}}}, namespace: "a",
			want: map[string]time.Duration{c1: publishDelay},
		},
		"a namespace that is": {
			grants: []v1alpha1.SourceGrantStatus{{Namespaces: []string{"a"}, Used: []string{"a"}}}, namespace: "a",
			want: map[string]time.Duration{c1: unusedDelay},
		},
		"a namespace where its source has no right": {
			grants: []v1alpha1.SourceGrantStatus{
				{ClusterID: "id1", Withheld: withheld}, {ClusterID: "id2", Withheld: withheld},
			}, namespace: "x", want: map[string]time.Duration{c1: publishDelay},
		},
		"such a namespace, of which its source does not learn": {
			grants: []v1alpha1.SourceGrantStatus{{ClusterID: "id1"}}, namespace: "x", want: map[string]time.Duration{},
		},
		"a namespace where its source has a right, which comes with the RoleBinding": {
			grants:    []v1alpha1.SourceGrantStatus{{ClusterID: "id1", Namespaces: []string{"x"}, Withheld: withheld}},
			namespace: "x", want: map[string]time.Duration{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{binding("ClusterRole", fullRole, "a", fullPrefix+"c1")}
			for i, status := range test.grants {
				objects = append(objects, grantOf([]string{"c1", "c2"}[i], status))
			}
			h, c := newHere(t, objects...), chaperon(test.namespace, "id1")
			made, gone := delays{due: map[string]time.Duration{}}, delays{due: map[string]time.Duration{}}
			handler := h.publisher.enqueueUse()
			handler.Create(t.Context(), event.CreateEvent{Object: c}, made)
			handler.Delete(t.Context(), event.DeleteEvent{Object: c}, gone)
			wantEqual(t, "due when it is made", test.want, made.due)
			wantEqual(t, "due when it is gone", test.want, gone.due)
		})
	}
}

func TestWhichSourceGrantsACopyConcerns(t *testing.T) {
	c1, c2 := translate.SourceGrantName("c1"), translate.SourceGrantName("c2")
	for name, test := range map[string]struct {
		change change
		want   map[string]time.Duration
	}{
		"one that is new":              {change{"b", "c1", false}, map[string]time.Duration{c1: publishDelay}},
		"one beside another":           {change{"a", "c1", false}, map[string]time.Duration{}},
		"one that is gone":             {change{"a", "c1", true}, map[string]time.Duration{c1: unusedDelay}},
		"one that was never published": {change{"b", "c1", true}, map[string]time.Duration{c1: publishDelay}},
		"all are listed":               {change{}, map[string]time.Duration{c1: 0, c2: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHere(t, grantOf("c1", v1alpha1.SourceGrantStatus{Copied: []string{"a"}}),
				grantOf("c2", v1alpha1.SourceGrantStatus{}))
			q := delays{due: map[string]time.Duration{}}
			if err := h.publisher.enqueueCopied(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			h.keeper.copies[0].report(test.change)
			wantEqual(t, "due", test.want, q.due)
		})
	}
}

func TestAnEndOfACopyMayAnswerAQuestion(t *testing.T) {
	h := newHere(t)
	reported := 0
	h.keeper.OnAnswer(func([]string) { reported++ })
	h.keeper.open.add("a", "c1")
	for _, which := range h.keeper.copies {
		which.report(change{"a", "c1", false})
		if reported > 0 {
			t.Fatal("a new copy answers nothing")
		}
	}
	for i, which := range h.keeper.copies {
		which.report(change{"a", "c1", true})
		which.report(change{"b", "c1", true}) // Nobody asked about it.
		which.report(change{})
		if reported != 2*(i+1) {
			t.Errorf("reported %d times", reported)
		}
	}
}

func TestWhoIsBound(t *testing.T) {
	b := binding("ClusterRole", fullRole, "a", "b")
	account := Identity{ServiceAccount: types.NamespacedName{Namespace: "admiralty", Name: "c1"}}
	if !account.HasServiceAccount() || (Identity{UserName: "c1"}).HasServiceAccount() {
		t.Error("who has a service account")
	}
	wantEqual(t, "users", []string{"c1"}, bound(b))
	wantEqual(t, "users of another kind", nil, bound(&v1alpha1.Source{}))
	wantEqual(t, "user of a service account", []string{"system:serviceaccount:admiralty:c1"}, account.Users())
}

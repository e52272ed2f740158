package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// newLab returns a lab with fake clusters, in a folder with a fake kubectl.
func newLab(t *testing.T, kubectl string, objects ...client.Object) *lab {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join(".local", "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/usr/bin/env bash\n" + kubectl
	if err := os.WriteFile(filepath.Join(".local", "bin", "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &lab{
		clusters: map[string]*cluster{source: {Client: c, name: source}},
		history:  checker.NewHistory(time.Now), done: map[string]bool{}, say: t.Logf,
	}
}

func (l *lab) broken() []checker.Rule {
	var rules []checker.Rule
	for _, v := range l.history.Violations() {
		rules = append(rules, v.Rule)
	}
	return rules
}

func TestATargetMayOnlySayThatItWasSetBackIfItWas(t *testing.T) {
	for _, setBack := range []bool{false, true} {
		says := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: target}}
		says.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTurnedBack,
		}}
		l := newLab(t, "", says)
		l.setBack.Store(setBack)
		_ = l.atRest(t.Context()) // There are no nodes.
		if got := slices.Contains(l.broken(), checker.NoFalseAlarm); got == setBack {
			t.Errorf("set back: %t; broken promises: %v", setBack, l.history.Violations())
		}
	}
}

func TestOnlyASourceThatActedInTheLostTimeMustNoticeIt(t *testing.T) {
	for _, test := range []struct {
		saved, last, now int64
		fine             bool
	}{
		{saved: 1, last: 1, now: 1, fine: false},
		{saved: 1, last: 1, now: 9, fine: true},
		{saved: 1, last: 5, now: 9, fine: false},
	} {
		l := newLab(t, "", &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: target}}, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "admiralty-leases", Name: "source-1",
				Annotations: map[string]string{v1alpha1.LabelParentClusterID: "id"},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("manager"), RenewTime: ptr.To(metav1.NewMicroTime(time.UnixMicro(test.now))),
			},
		})
		l.clusters[target] = l.clusters[source]
		err := l.notice(t.Context(), renewal{"manager", test.saved}, renewal{"manager", test.last})
		if (err == nil) != test.fine {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestADrainOfTheTargetAloneHasToEnd(t *testing.T) {
	for kubectl, ends := range map[string]bool{"exit 0": true, "echo pods remain; exit 1": false} {
		l := newLab(t, kubectl)
		if err := drain().do(t.Context(), l, nil); (err == nil) != ends {
			t.Errorf("%s: %v", kubectl, err)
		}
		if got := slices.Contains(l.broken(), checker.Converges); got == ends {
			t.Errorf("%s: broken promises: %v", kubectl, l.history.Violations())
		}
	}
}

func TestADrainAmidFaultsIsAwaited(t *testing.T) {
	for _, o := range operations() {
		if o.name != "the virtual node is drained" {
			continue
		}
		l := newLab(t, `[[ $* != *drain* ]] || { read -r -t 1 <> <(:); touch drained; exit 1; }`)
		if err := o.do(t.Context(), l, nil); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat("drained"); err != nil {
			t.Errorf("it was not awaited: %v", err)
		}
		if err := o.do(t.Context(), newLab(t, "exit 1"), nil); err == nil {
			t.Error("nothing was begun, and it counts")
		}
	}
}

func TestTheShortFormHasToCarryOutItsFaults(t *testing.T) {
	done := map[string]bool{}
	for _, name := range shortFaults()[1:] {
		done[name] = true
	}
	if got := missing(done); !slices.Equal(got, shortFaults()[:1]) {
		t.Errorf("missing are %q", got)
	}
	l := &lab{history: checker.NewHistory(time.Now), done: map[string]bool{}, say: t.Logf}
	if err := (options{short: true}).complete(l, nil); err == nil {
		t.Error("a short form without faults passes")
	}
	if err := (options{}).complete(l, nil); err != nil {
		t.Errorf("any other run: %v", err)
	}
	if err := (options{short: true}).complete(l, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

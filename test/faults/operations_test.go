package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

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

func TestARunThatIsInterruptedBreaksNoPromise(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	l := newLab(t, "exit 1")
	if err := drain().do(ctx, l, nil); err == nil || len(l.broken()) > 0 {
		t.Errorf("%v, broken promises: %v", err, l.history.Violations())
	}
}

func TestADrainThatBreaksTheBudgetIsNoticed(t *testing.T) {
	serving := func(name string, delegate bool, change ...func(*corev1.Pod)) client.Object {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": web}}}
		if delegate {
			pod.Labels = map[string]string{v1alpha1.LabelParentUID: "of-" + name, appOfDelegate: web}
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		for _, c := range change {
			c(pod)
		}
		return pod
	}
	ends := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"kept"}
	}
	for name, test := range map[string]struct {
		proxy, delegate func(*corev1.Pod)
		want            bool
	}{
		"all serve":            {},
		"a proxy is ending":    {proxy: ends, want: true},
		"a delegate is not":    {delegate: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: true},
		"a delegate is ending": {delegate: ends, want: true},
	} {
		var pods []client.Object
		for i := range webReplicas - 1 {
			var proxy, delegate []func(*corev1.Pod)
			if i == 0 && test.proxy != nil {
				proxy = append(proxy, test.proxy)
			}
			if i == 0 && test.delegate != nil {
				delegate = append(delegate, test.delegate)
			}
			pods = append(pods, serving(fmt.Sprintf("proxy-%d", i), false, proxy...),
				serving(fmt.Sprintf("delegate-%d", i), true, delegate...))
		}
		there := newLab(t, "").clusters[source]
		l := newLab(t, "read -r -t 1 <> <(:); exit 0", pods...)
		l.clusters[target] = there
		if err := drain().do(t.Context(), l, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := slices.Contains(l.broken(), checker.Budgets); got != test.want {
			t.Errorf("%s: broken promises: %v", name, l.history.Violations())
		}
	}
}

func TestADrainAmidFaultsIsAwaited(t *testing.T) {
	for _, o := range operations() {
		if o.name != "the virtual node is drained" && o.name != "the virtual node of the source is drained" {
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

func TestAnOperationThatFindsNothingDoesNotCount(t *testing.T) {
	for name, test := range map[string]struct {
		kubectl string
		do      func(context.Context, *lab, *rand.Rand) error
	}{
		"no pod":      {do: deleteProxy(checker.Deleted, web)},
		"no such app": {do: deleteInTarget(checker.DelegateDeleted, "pod", []string{db})},
		"no delegate": {
			kubectl: "echo No resources found", do: deleteInTarget(checker.DelegateDeleted, "pod", []string{task}),
		},
		"cordoned": {
			kubectl: "echo node/admiralty-c2 already cordoned", do: operationNamed(t, "the virtual node is cordoned"),
		},
	} {
		labels := map[string]string{"app": task}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "task-1", UID: "a", Labels: labels}}
		pod.Spec.NodeName = "admiralty-" + source
		err := test.do(t.Context(), newLab(t, test.kubectl, pod), rand.New(rand.NewPCG(1, 0)))
		if !errors.Is(err, errNothing) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

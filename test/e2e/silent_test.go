//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// awakeIs returns an error unless the condition Awake of ClusterTarget c2 has a status.
func (w *world) awakeIs(ctx context.Context, want metav1.ConditionStatus) error {
	target := &v1alpha1.ClusterTarget{}
	if err := w.c1.Get(ctx, types.NamespacedName{Name: "c2"}, target); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(target.Status.Conditions, v1alpha1.ConditionAwake); c == nil || c.Status != want {
		return fmt.Errorf("condition Awake is %+v, want %s", c, want)
	}
	return nil
}

// silenceC2 stops the manager of c2, and waits until c1 says so. The test ends with the manager awake.
func (w *world) silenceC2(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		w.scaleC2(ctx, t, "2")
		eventuallyIn(ctx, t, "c2's manager to be awake", func(ctx context.Context) error {
			return w.awakeIs(ctx, metav1.ConditionTrue)
		})
	})
	eventually(t, "c2's manager to be awake", func(ctx context.Context) error {
		return w.awakeIs(ctx, metav1.ConditionTrue)
	})
	w.scaleC2(t.Context(), t, "0")
	eventually(t, "c2's managers to be gone", func(ctx context.Context) error {
		pods, err := w.c2.managerPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	gone := time.Now()
	eventually(t, "c1 to notice the silence", func(ctx context.Context) error {
		return w.awakeIs(ctx, metav1.ConditionFalse)
	})
	if took := time.Since(gone); took > time.Minute { // 40 s, or so, on a machine that has nothing else to do
		t.Errorf("c1 noticed the silence after %s", took)
	}
	eventually(t, "the taint of the virtual node", func(ctx context.Context) error {
		silent, err := w.c2IsTainted(ctx)
		if err == nil && !silent {
			err = errors.New("it is not there")
		}
		return err
	})
}

func (w *world) scaleC2(ctx context.Context, t *testing.T, replicas string) {
	t.Helper()
	out, err := runKubectl(ctx, "--context", "c2", "-n", "admiralty", "scale", "deployment",
		"multicluster-scheduler-controller-manager", "--replicas", replicas)
	if err != nil {
		t.Fatalf("scaling the manager of c2: %v\n%s", err, out)
	}
}

func TestASilentTargetKeepsItsPodsAndGetsNoNewOnes(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(4))
	before := w.quiet(t, 4)
	w.silenceC2(t)

	w.kubectl(t, "scale", "deployment/web", "--replicas=8")
	stopped := time.Now()
	old := map[types.UID]bool{}
	for _, proxy := range before.proxies {
		old[proxy.UID] = true
	}
	check := func(ctx context.Context) error { return w.calm(ctx, old) }
	for tick := time.NewTicker(time.Second); time.Since(stopped) < silence; <-tick.C { // It has to last.
		if err := check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the new pods to run in c1", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err == nil && p.byNode["admiralty-c1"] != 8-before.byNode["admiralty-c2"] {
			err = fmt.Errorf("pods by node: %v", p.byNode)
		}
		return err
	})
	w.scaleC2(t.Context(), t, "2")
	eventually(t, "the taint to be gone", func(ctx context.Context) error {
		silent, err := w.c2IsTainted(ctx)
		if err == nil && silent {
			err = errors.New("it is there")
		}
		return errors.Join(err, w.awakeIs(ctx, metav1.ConditionTrue))
	})
	w.quiet(t, 8)
}

// calm returns an error if an old proxy is not as it was, or a new one is in c2. It also returns one if the virtual
// node is not as it should be while c2's manager is silent.
func (w *world) calm(ctx context.Context, old map[types.UID]bool) error {
	p, err := w.placement(ctx)
	if err != nil {
		return err
	}
	found := 0
	for i := range p.proxies {
		proxy := &p.proxies[i]
		switch {
		case old[proxy.UID] && (proxy.DeletionTimestamp != nil || !ready(proxy)):
			return fmt.Errorf("%s is %s, deleted at %v", proxy.Name, proxy.Status.Phase, proxy.DeletionTimestamp)
		case old[proxy.UID]:
			found++
		case proxy.Spec.NodeName == "admiralty-c2":
			return fmt.Errorf("%s went to c2", proxy.Name)
		}
	}
	if found != len(old) {
		return fmt.Errorf("%d of %d pods are left", found, len(old))
	}
	silent, err := w.c2IsTainted(ctx)
	if err == nil && !silent {
		err = errors.New("the virtual node of c2 is not tainted")
	}
	return err
}

// c2IsTainted says whether the virtual node of c2 keeps new pods away because of silence. It must be Ready.
func (w *world) c2IsTainted(ctx context.Context) (bool, error) {
	node := &corev1.Node{}
	if err := w.c1.Get(ctx, client.ObjectKey{Name: "admiralty-c2"}, node); err != nil {
		return false, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return false, fmt.Errorf("the virtual node of c2 is not Ready: %s", c.Message)
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1alpha1.TaintSilent && taint.Effect == corev1.TaintEffectNoSchedule {
			return true, nil
		}
	}
	return false, nil
}

package lifecycle

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	background = client.PropagationPolicy(metav1.DeletePropagationBackground)
	force      = client.GracePeriodSeconds(0)
)

// lasting gives a pod a grace period that no test outlasts.
func lasting(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(600)) }

// TestGracePeriods has kubectl's options: --grace-period=N, --now (1 s), and --force, which on a node gives the
// containers a second.
func TestGracePeriods(t *testing.T) {
	c2 := engaged(t)
	for name, test := range map[string]struct {
		options []client.DeleteOption
		want    int64
	}{
		"own":     {nil, 600},
		"shorter": {[]client.DeleteOption{client.GracePeriodSeconds(7)}, 7},
		"longer":  {[]client.DeleteOption{client.GracePeriodSeconds(900)}, 900},
		"now":     {[]client.DeleteOption{client.GracePeriodSeconds(1)}, 1},
		"force":   {[]client.DeleteOption{force}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, delegate := run(t, c2, name, lasting)
			env.Delete(t, source, proxy, test.options...)
			waitForDeletion(t, target, delegate, test.want)
			if name != "force" {
				waitForDeletion(t, source, proxy, test.want)
			}
			confirm(t, delegate)
			env.WaitGone(t, source, proxy)
		})
	}
}

// TestAGracePeriodIsShortened has a grace period that is shortened while the delegate ends.
func TestAGracePeriodIsShortened(t *testing.T) {
	proxy, delegate := run(t, engaged(t), "web", lasting)
	env.Delete(t, source, proxy)
	waitForDeletion(t, target, delegate, 600)
	env.Delete(t, source, proxy, client.GracePeriodSeconds(5))
	waitForDeletion(t, target, delegate, 5)
}

// TestAProxyWaitsForADelegateWithoutAPodChaperon has somebody in the target who deletes a PodChaperon in the
// background. The test plays the garbage collector, which deletes the delegate then.
func TestAProxyWaitsForADelegateWithoutAPodChaperon(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, proxy, delegate *corev1.Pod){
		"somebody deletes the PodChaperon": func(t *testing.T, _, delegate *corev1.Pod) {
			t.Helper()
			env.Delete(t, target, chaperonOf(t, delegate), background)
		},
		"somebody deletes the pod, and then the PodChaperon": func(t *testing.T, proxy, delegate *corev1.Pod) {
			t.Helper()
			env.Delete(t, source, proxy)
			waitForDeletion(t, target, delegate, 600)
			env.Delete(t, target, chaperonOf(t, delegate), background)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := engaged(t)
			proxy, delegate := run(t, c2, "db-0", lasting)
			remove(t, proxy, delegate)
			waitForDeletion(t, source, proxy, 600)
			env.Delete(t, target, delegate) // The garbage collector does so.
			waitForLooks(t, c2)
			if !env.Exists(t, source, proxy) {
				t.Fatal("the proxy is gone, although its delegate runs")
			}
			confirm(t, delegate)
			env.WaitGone(t, source, proxy)
		})
	}
}

// waitForLooks waits until the source has looked for another delegate without a PodChaperon several times.
func waitForLooks(t *testing.T, in *env.Target) {
	t.Helper()
	proxy, delegate := run(t, in, "marker")
	env.Delete(t, target, chaperonOf(t, delegate), background)
	waitForDeletion(t, source, proxy, corev1.DefaultTerminationGracePeriodSeconds)
	confirm(t, delegate)
	env.WaitGone(t, source, proxy)
}

// TestAPodThatMayNotBeSoughtHasItsGracePeriod has a target that does not give the right to read logs.
func TestAPodThatMayNotBeSoughtHasItsGracePeriod(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	c2 := engaged(t, func(e *engage.Target) {
		e.FindsPod = func(context.Context, types.NamespacedName) (bool, error) { return false, forbidden }
	})
	proxy, delegate := run(t, c2, "db-0", func(pod *corev1.Pod) {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	})
	env.Delete(t, target, chaperonOf(t, delegate), background)
	began := time.Now()
	env.WaitGone(t, source, proxy)
	if took := time.Since(began); took < time.Second {
		t.Errorf("the proxy was gone after %v, before its grace period had passed", took)
	}
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDeletionGivesTheDelegateItsGrace(t *testing.T) {
	for name, test := range map[string]struct {
		own   int64
		flags []string
		want  time.Duration
	}{
		"the grace period of the pod":            {own: 6, want: 6 * time.Second},
		"a shorter grace period of the deletion": {own: 60, flags: []string{"--grace-period=4"}, want: 4 * time.Second},
		"a longer grace period of the deletion":  {own: 2, flags: []string{"--grace-period=7"}, want: 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := setUp(t)
			template := podTemplate("stubborn", "sleep", "--ignore-term", "1h")
			template.Spec.TerminationGracePeriodSeconds = &test.own
			create(t, w.c1, w.pod("stubborn", template))
			proxy := w.reaches(t, "stubborn", corev1.PodRunning)
			where, delegate := w.delegateOf(t, proxy)

			log := followLog(t, where, delegate)
			end := w.watchEnd(t, proxy, where, delegate)
			start := time.Now()
			w.kubectl(t, append([]string{"delete", "pod", "stubborn", "--wait=false"}, test.flags...)...)
			order, took := end(), time.Since(start)
			if strings.Join(order, ", ") != "delegate gone, proxy gone" {
				t.Errorf("order of events: %v", order)
			}
			if took < test.want || took > test.want+20*time.Second {
				t.Errorf("the pod was gone after %s, want %s and a little", took.Round(time.Millisecond), test.want)
			}
			if out := log(); !strings.Contains(out, "received SIGTERM") {
				t.Errorf("the delegate's log has no SIGTERM:\n%s", out)
			}
			gone(t, where, &v1alpha1.PodChaperon{ObjectMeta: delegate.ObjectMeta})
		})
	}
}

// followLog reads a delegate's log in its own cluster until the log ends. The function returned waits for the content.
func followLog(t *testing.T, c *cluster, pod *corev1.Pod) func() string {
	t.Helper()
	out := make(chan string, 1)
	go func() {
		log, _ := runKubectl(t.Context(), "--context", c.name, "logs", "-f", "-n", pod.Namespace, pod.Name)
		out <- log
	}()
	return func() string { return <-out }
}

// watchEnd watches a proxy until it is gone. The function returned reports in which order the proxy and its delegate
// ended, and whether the proxy showed that it was terminating.
func (w *world) watchEnd(t *testing.T, proxy *corev1.Pod, where *cluster, delegate *corev1.Pod) func() []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	events, err := w.c1.Watch(
		ctx,
		&corev1.PodList{},
		client.InNamespace(w.namespace),
		client.MatchingFields{"metadata.name": proxy.Name},
	)
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		defer events.Stop()
		for event := range events.ResultChan() {
			if event.Type != watch.Deleted {
				continue
			}
			err := where.Get(ctx, client.ObjectKeyFromObject(delegate), &corev1.Pod{})
			if apierrors.IsNotFound(err) {
				return []string{"delegate gone", "proxy gone"}
			}
			return []string{"proxy gone", fmt.Sprintf("delegate still there (%v)", err)}
		}
		return []string{"the proxy never went"}
	}
}

// The delegate has a second, as on a node. With its own grace period it would outlast the test.
func TestAForceDeletedProxyTakesItsDelegateAlong(t *testing.T) {
	w := setUp(t)
	template := podTemplate("web", "sleep", "--ignore-term", "1h")
	template.Spec.TerminationGracePeriodSeconds = new(int64(3600))
	create(t, w.c1, w.pod("web", template))
	where, delegate := w.delegateOf(t, w.reaches(t, "web", corev1.PodRunning))
	w.kubectl(t, "delete", "pod", "web", "--grace-period=0", "--force")
	gone(t, where, delegate)
	gone(t, where, &v1alpha1.PodChaperon{ObjectMeta: delegate.ObjectMeta})
}

// TestAScaleUpThatIsTakenBackAtOnceLeavesNothing deletes a Deployment as soon as the first of its new pods has a
// PodChaperon. The others wait for the scheduler, for a target, or for their delegate then.
func TestAScaleUpThatIsTakenBackAtOnceLeavesNothing(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(0))
	w.kubectl(t, "scale", "deployment/web", "--replicas=20")
	eventually(t, "the first PodChaperon", func(ctx context.Context) error {
		for _, c := range w.all() {
			chaperons := &v1alpha1.PodChaperonList{}
			err := c.List(ctx, chaperons, client.InNamespace(w.namespace))
			if err != nil || len(chaperons.Items) > 0 {
				return err
			}
		}
		return errors.New("there is none")
	})
	w.kubectl(t, "delete", "deployment", "web", "--cascade=foreground")
	w.nothingLeft(t)
}

func TestNoPodCarriesAFinalizerOfOurs(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(2))
	p := w.quiet(t, 2)
	for _, pod := range append(p.proxies, append(p.delegates["c1"], p.delegates["c2"]...)...) {
		if len(pod.Finalizers) > 0 {
			t.Errorf("pod %s has finalizers %v", pod.Name, pod.Finalizers)
		}
	}
}

// nothingLeft waits until no PodChaperon and no pod is left in the namespace, in either cluster.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, "nothing to be left", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err != nil {
			return err
		}
		for _, name := range p.uids() {
			return fmt.Errorf("pod %s is left", name)
		}
		for _, c := range w.all() {
			chaperons := &v1alpha1.PodChaperonList{}
			if err := c.List(ctx, chaperons, client.InNamespace(w.namespace)); err != nil {
				return err
			}
			if len(chaperons.Items) > 0 {
				return fmt.Errorf("%s has %d PodChaperons", c.name, len(chaperons.Items))
			}
		}
		return nil
	})
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const manager = "app.kubernetes.io/name=multicluster-scheduler"

// delegateLog records all delegates that ever had a node in the namespace of either cluster, by proxy. On a busy
// machine, a delegate that its target does not schedule in time is withdrawn, and another target gets the next one.
type delegateLog struct {
	mu   sync.Mutex                      // guards seen
	seen map[string]map[types.UID]string // to cluster, name and node
}

func (w *world) logDelegates(t *testing.T) *delegateLog {
	t.Helper()
	log := &delegateLog{seen: map[string]map[types.UID]string{}}
	for _, c := range w.all() {
		events, err := c.Watch(
			t.Context(),
			&corev1.PodList{},
			client.InNamespace(w.namespace),
			client.HasLabels{v1alpha1.LabelParentUID},
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				if pod, ok := event.Object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
					what := fmt.Sprintf("%s/%s on node %q", c.name, pod.Name, pod.Spec.NodeName)
					log.add(pod.Labels[v1alpha1.LabelParentUID], pod.UID, what)
				}
			}
		}()
	}
	return log
}

func (l *delegateLog) add(parent string, uid types.UID, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[parent] == nil {
		l.seen[parent] = map[types.UID]string{}
	}
	l.seen[parent][uid] = what
}

func (l *delegateLog) doubled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for parent, delegates := range l.seen {
		if len(delegates) > 1 {
			return fmt.Errorf("proxy %s had %d delegates: %s", parent, len(delegates),
				strings.Join(slices.Sorted(maps.Values(delegates)), ", "))
		}
	}
	return nil
}

func TestTheManagerKilledInTheMiddleOfARollOutLosesAndDoublesNoPod(t *testing.T) {
	w := setUp(t)
	delegates := w.logDelegates(t)
	create(t, w.c1, w.webServer(30))
	eventually(t, "the roll-out to be under way", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err != nil {
			return err
		}
		if n := len(p.delegates["c1"]) + len(p.delegates["c2"]); n < 3 {
			return fmt.Errorf("%d delegates", n)
		}
		return nil
	})
	out, err := runKubectl(
		t.Context(),
		"--context",
		"c1",
		"-n",
		"admiralty",
		"delete",
		"pods",
		"-l",
		manager,
		"--grace-period=0",
		"--force",
	)
	if err != nil {
		t.Fatalf("killing the manager: %v\n%s", err, out)
	}
	w.quiet(t, 30)
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
	if out, err := runKubectl(t.Context(), "--context", "c1", "-n", "admiralty", "rollout", "status",
		"deployment", "-l", manager, "--timeout=2m"); err != nil {
		t.Errorf("the manager did not come back: %v\n%s", err, out)
	}
}

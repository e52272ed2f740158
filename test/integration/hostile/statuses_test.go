package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/hostile"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestATargetWithOneBoundPodCostsLittle has a target that reports a status of 1.2 MiB of its only delegate, again and
// again, each time with another UID of the PodChaperon.
func TestATargetWithOneBoundPodCostsLittle(t *testing.T) {
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	was := engagedTarget(t, key)
	namespace := env.Namespace(t, env.Enabled(), c1, c2)
	proxy := env.Proxy(namespace, "web")
	// It is bound only because its delegate runs.
	proxy.Spec.NodeSelector = map[string]string{"example.com/by": "nobody"}
	env.CreateForTest(t, c1, proxy)
	chaperon := proved(t, proxy, key)
	s.reportLongStatuses(chaperon.DeepCopy())
	env.Eventually(t, func(ctx context.Context) error { return cached(ctx, was, chaperon) })
	stop := watchHeap(t)
	env.WaitFor(t, c1, proxy, func(proxy *corev1.Pod) error {
		is := &proxy.Status
		second := strings.HasPrefix(is.Message, "2")
		if is.Phase != corev1.PodRunning || !second || is.Size() > translate.MaxStatus {
			return fmt.Errorf("it shows %s, with %d bytes, and the message %.10q", is.Phase, is.Size(), is.Message)
		}
		return nil
	})
	stop()
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	if engagedTarget(t, key) != was {
		t.Error("the target was engaged anew")
	}
	s.Behave()
}

// reportLongStatuses sends the PodChaperon ten times a second. Each message begins with the number of the event.
func (s *server) reportLongStatuses(chaperon *v1alpha1.PodChaperon) {
	chaperon.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon"}
	long := strings.Repeat("x", 60<<10)
	chaperon.Status.Phase = corev1.PodRunning
	for i := range 20 {
		chaperon.Status.Conditions = append(chaperon.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(fmt.Sprintf("example.com/%d", i)), Status: corev1.ConditionTrue,
			Message: long,
		})
	}
	event := func(kind string, n int, chaperon *v1alpha1.PodChaperon) string {
		chaperon.UID, chaperon.ResourceVersion = uuid.NewUUID(), fmt.Sprint(n)
		chaperon.Status.Message = fmt.Sprint(n) + long
		object, err := json.Marshal(chaperon)
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf(hostile.Invented, kind, object)
	}
	s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if !hostile.IsWatch(r, "podchaperons") {
			return false
		}
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		own := chaperon.DeepCopy()
		part := event("ADDED", 1000, own) + hostile.Listed
		for n := 2000; hostile.SendJSON(w, part); n++ {
			select {
			case <-r.Context().Done():
				return true
			case <-ticker.C:
			}
			part = event("MODIFIED", n, own)
		}
		return true
	})
}

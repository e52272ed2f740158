package slow

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/hostile"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// lead creates a ClusterTarget of a source that leads where the login leads.
func lead(t env.T, in *env.Cluster, name string, login *rest.Config) types.NamespacedName {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: env.Meta(metav1.NamespaceDefault, name)}
	secret.Data = map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: login})}
	env.CreateForTest(t, in, secret)
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: metav1.NamespaceDefault, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: name},
	}
	env.CreateForTest(t, in, object)
	return types.NamespacedName{Name: name}
}

// waitCondition waits until a condition of a ClusterTarget has a status, and returns its reason.
func waitCondition(
	t env.T, in *env.Cluster, key types.NamespacedName, kind string, status metav1.ConditionStatus,
) string {
	t.Helper()
	object := &v1alpha1.ClusterTarget{}
	var c *metav1.Condition
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 5*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			err := in.Client.Get(ctx, key, object)
			c = meta.FindStatusCondition(object.Status.Conditions, kind)
			return c != nil && c.Status == status, err
		})
	if err != nil {
		t.Fatalf("waiting for %s=%s of %s: %v; conditions are %+v", kind, status, key, err, object.Status.Conditions)
	}
	return c.Reason
}

// server is a target whose requests are counted.
type server struct {
	*hostile.Server

	key types.NamespacedName
	// begun is when the counting began.
	begun time.Time

	mu       sync.Mutex  // guards the fields below
	requests map[int]int // by the second since begun
	history  []string    // the states of the ClusterTarget and of its node, each different from the one before
	writes   int         // of the status of the ClusterTarget
	state    [2]string
}

// newServer connects a target.
func newServer(t *testing.T, name string) *server {
	t.Helper()
	s := &server{begun: time.Now(), requests: map[int]int{}}
	var err error
	s.Server, err = hostile.New(connected(t, name), "127.0.0.1", func(*http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests[int(time.Since(s.begun).Seconds())]++
	})
	env.Must(t, err)
	t.Cleanup(s.Close)
	s.key = lead(t, c1, name, s.Login)
	noted.Store(name, s)
	noted.Store(translate.VirtualNodeName(s.key), s)
	return s
}

// noted has the servers by the names of their targets, and of the virtual nodes.
var noted sync.Map

// noteStates notes the states of all targets, and of their nodes.
func noteStates(t env.T) {
	t.Helper()
	watch(t, c1, "", func(target *v1alpha1.ClusterTarget) {
		if s, is := noted.Load(target.Name); is {
			s.(*server).note(0, conditions(target.Status.Conditions))
		}
	})
	watch(t, c1, "", func(node *corev1.Node) {
		if s, is := noted.Load(node.Name); is {
			s.(*server).note(1, nodeState(node))
		}
	})
}

// ready waits until the target takes pods.
func (s *server) ready(t *testing.T) {
	t.Helper()
	waitCondition(t, c1, s.key, v1alpha1.ConditionReady, metav1.ConditionTrue)
	waitCondition(t, c1, s.key, v1alpha1.ConditionResponsive, metav1.ConditionTrue)
}

// note notes the state of the ClusterTarget, or that of the node.
func (s *server) note(which int, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if which == 0 {
		s.writes++
	}
	if s.state[which] != state {
		s.state[which] = state
		s.history = append(s.history, fmt.Sprintf("%.1fs %s", time.Since(s.begun).Seconds(), state))
	}
}

// forget forgets all that was counted, and begins anew.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.requests, s.history, s.writes = time.Now(), map[int]int{}, nil, 0
}

// seen logs what was counted, and returns it. Requests are per second, on average, and in the second with most.
func (s *server) seen(t *testing.T) (history []string, writes int, perSecond float64, most int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all, took := 0, time.Since(s.begun).Seconds()
	for _, n := range s.requests {
		all += n
		most = max(most, n)
	}
	t.Logf("in %.1fs: %d requests, at most %d a second; %d writes of the status; states %q",
		took, all, most, s.writes, s.history)
	return slices.Clone(s.history), s.writes, float64(all) / took, most
}

func conditions(all []metav1.Condition) string {
	text := "target"
	for _, kind := range []string{v1alpha1.ConditionConnected, v1alpha1.ConditionResponsive} {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			text += " " + kind + "=" + string(c.Status) + "/" + c.Reason
		}
	}
	return text
}

func nodeState(node *corev1.Node) string {
	text := "node"
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			text += " Ready=" + string(c.Status)
		}
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintUnresponsive }) {
		text += " unresponsive"
	}
	return text
}

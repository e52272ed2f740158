package restored

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// restarts say whether the manager of the cluster that is set back runs meanwhile.
var restarts = map[string]bool{"while its manager is stopped": true, "while its manager runs": false}

func TestASourceIsSetBack(t *testing.T) {
	for name, restart := range restarts {
		t.Run(name, func(t *testing.T) {
			c := check(t)
			stop := runSource(t)
			connect(t, "c2")
			waitConnected(t, "c2")
			kept, later, finishes := run(t, "kept"), run(t, "deleted-later"), run(t, "finishes-later")
			backup := source.Save(t)
			waitConnected(t, "c2")

			env.Delete(t, source, later)
			env.WaitGone(t, source, later)
			created := run(t, "created-later")
			finish(t, finishes)
			waitPhase(t, finishes, corev1.PodSucceeded)

			if restart {
				stop()
			}
			source.SetBack(t, backup, nil)
			if restart {
				runSource(t)
			}
			// The delegate of the proxy that vanished ends, and a proxy that came back without its delegate goes.
			waitNoDelegate(t, created)
			env.WaitGone(t, source, later)
			waitPhase(t, finishes, corev1.PodSucceeded)
			expectAsBefore(t, c, kept)
			if got := c.of(later); len(got) != 1 {
				t.Errorf("the pod that came back had the delegates %v", got)
			}
		})
	}
}

func TestATargetIsSetBack(t *testing.T) {
	for name, restart := range restarts {
		t.Run(name, func(t *testing.T) {
			c := check(t)
			stop := runSource(t)
			object := connect(t, "c2")
			waitConnected(t, "c2")
			kept, later := run(t, "kept"), run(t, "deleted-later")
			backup := target.Save(t)
			stop = raiseEpoch(t, object, stop)
			waitConnected(t, "c2")

			env.Delete(t, source, later)
			env.WaitGone(t, source, later)
			created := run(t, "created-later")
			leader := leaderOf(t, target)

			target.SetBack(t, backup, func() {
				if restart {
					stop()
				}
			})
			if restart {
				runSource(t)
			}
			waitForAnotherLeader(t, target, leader)
			env.WaitFor(t, source, object, func(o *v1alpha1.ClusterTarget) error {
				return reasonIs(o, v1alpha1.ReasonTurnedBack)
			})
			expectAsBefore(t, c, kept)
			if !env.Exists(t, source, created.DeepCopy()) {
				t.Fatal("a proxy was deleted before anybody accepted the target")
			}
			env.Change(t, source, object, func(o *v1alpha1.ClusterTarget) {
				epoch := strconv.FormatInt(o.Status.Epoch, 10)
				metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationAcceptEpoch, epoch)
			})
			waitConnected(t, "c2") // It looks again after half a minute.
			env.WaitGone(t, source, created)
			waitNoDelegate(t, later)
			expectAsBefore(t, c, kept)
		})
	}
}

// leaderOf returns which process leads a cluster.
func leaderOf(t *testing.T, in *env.Cluster) string {
	t.Helper()
	return ptr.Deref(env.Get(t, in, leaderLease()).Spec.HolderIdentity, "")
}

// waitForAnotherLeader waits until the manager has begun anew. Its caches were of another time.
func waitForAnotherLeader(t *testing.T, in *env.Cluster, earlier string) {
	t.Helper()
	env.WaitFor(t, in, leaderLease(), func(lease *coordinationv1.Lease) error {
		if leader := ptr.Deref(lease.Spec.HolderIdentity, ""); leader == "" || leader == earlier {
			return fmt.Errorf("the leader is %q, and was %q before the cluster was set back", leader, earlier)
		}
		return nil
	})
}

func leaderLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release)}
}

// raiseEpoch has a new leader raise the epoch, as it is raised six times in an hour. It stops the earlier one.
func raiseEpoch(t *testing.T, object *v1alpha1.ClusterTarget, stop func()) (stopNext func()) {
	t.Helper()
	was := env.Get(t, source, object).Status.Epoch
	stop()
	stopNext = runSource(t)
	env.WaitFor(t, source, object, func(o *v1alpha1.ClusterTarget) error {
		if o.Status.Epoch <= was {
			return fmt.Errorf("the epoch is %d", o.Status.Epoch)
		}
		return nil
	})
	return stopNext
}

func TestARenamedTargetLeavesNothing(t *testing.T) {
	c := check(t)
	stop := runSource(t)
	connect(t, "c2")
	waitConnected(t, "c2")
	orphan := run(t, "orphan")
	stop() // Nobody is there to end the delegate.
	env.Delete(t, source, clusterTarget("c2"))
	connect(t, "renamed")
	runSource(t)
	waitConnected(t, "renamed")
	env.WaitGone(t, source, orphan)
	waitNoDelegate(t, orphan)
	if next := run(t, "orphan"); next.Spec.NodeName != "admiralty-renamed" || len(c.of(next)) != 1 {
		t.Errorf("the next pod is on %s, with %v", next.Spec.NodeName, c.of(next))
	}
}

func TestASourceIsInstalledAnew(t *testing.T) {
	c := check(t)
	stop := runSource(t)
	connect(t, "c2")
	waitConnected(t, "c2")
	kept := run(t, "kept")
	stop()
	// The ClusterTargets, and the Secret of the key, are made anew. The pods stayed.
	env.Delete(t, source, clusterTarget("c2"))
	proof := &corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release+"-proof")}
	env.Delete(t, source, proof)
	prepareManager(t, source)
	connect(t, "c2")
	stop = runSource(t)
	waitConnected(t, "c2")
	next := run(t, "next")
	expectAsBefore(t, c, kept)

	t.Run("with another cluster ID", func(t *testing.T) {
		stop()
		supervise(t, source, "another-id", "target: false")
		waitConnected(t, "c2")
		for _, proxy := range []*corev1.Pod{kept, next} {
			env.Eventually(t, func(context.Context) error {
				chaperon := env.Get(t, target, chaperonOf(proxy))
				if id := chaperon.Labels[v1alpha1.LabelParentClusterID]; id != "another-id" {
					return fmt.Errorf("the PodChaperon of %s is of cluster %s", proxy.Name, id)
				}
				return nil
			})
			expectAsBefore(t, c, proxy)
		}
		run(t, "last")
	})
}

// run creates a proxy, and waits until its delegate runs.
func run(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	proxy := env.Proxy(shop, name)
	proxy.Spec.Tolerations = []corev1.Toleration{
		{Key: v1alpha1.LabelNodeProvider, Operator: corev1.TolerationOpExists},
		// Nobody plays the controller that takes this taint off a node that has become ready.
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
	env.Create(t, source, proxy)
	t.Cleanup(func() { remove(t, proxy) })
	waitPhase(t, proxy, corev1.PodRunning)
	return proxy
}

// remove deletes a proxy that may be gone, and waits until nothing of it is left.
func remove(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	env.Must(t, ignoreNotFound(source.Client.Delete(ctx, proxy.DeepCopy(), client.GracePeriodSeconds(0))))
	chaperon := chaperonOf(proxy)
	env.Must(t, ignoreNotFound(target.Client.Delete(ctx, chaperon)))
}

func chaperonOf(proxy *corev1.Pod) *v1alpha1.PodChaperon {
	return &v1alpha1.PodChaperon{ObjectMeta: env.Meta(shop, translate.DelegateName(proxy))}
}

func delegateOf(proxy *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: env.Meta(shop, translate.DelegateName(proxy))}
}

// finish plays a kubelet whose containers have ended.
func finish(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	env.ChangeStatus(t, target, delegateOf(proxy), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
}

func waitPhase(t *testing.T, proxy *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return nil
	})
}

// waitNoDelegate waits until a proxy has no PodChaperon and no delegate.
func waitNoDelegate(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	env.WaitGone(t, target, chaperonOf(proxy))
	env.WaitGone(t, target, delegateOf(proxy))
}

// expectAsBefore checks that a proxy exists, and has the delegate that it had first.
func expectAsBefore(t *testing.T, c *checker, proxy *corev1.Pod) {
	t.Helper()
	was := proxy.UID
	if now := env.Get(t, source, proxy.DeepCopy()); now.UID != was || now.DeletionTimestamp != nil {
		t.Errorf("proxy %s is another one now, or is deleted", proxy.Name)
	}
	delegate := env.Get(t, target, delegateOf(proxy))
	if got := c.of(proxy); len(got) != 1 || got[0] != delegate.UID || delegate.DeletionTimestamp != nil {
		t.Errorf("proxy %s had the delegates %v", proxy.Name, got)
	}
}

func reasonIs(o *v1alpha1.ClusterTarget, reason string) error {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionConnected)
	if c == nil || c.Reason != reason {
		return fmt.Errorf("condition is %+v, want %s", c, reason)
	}
	return nil
}

// waitConnected waits until a target is connected, and its virtual node is ready.
func waitConnected(t *testing.T, name string) {
	t.Helper()
	env.WaitFor(t, source, clusterTarget(name), func(o *v1alpha1.ClusterTarget) error {
		if !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) {
			return errors.Join(reasonIs(o, v1alpha1.ReasonConnected), errors.New("it is not ready"))
		}
		return reasonIs(o, v1alpha1.ReasonConnected)
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: translate.VirtualNodeName(types.NamespacedName{Name: name}),
	}}
	env.WaitFor(t, source, node, func(*corev1.Node) error { return nil })
}

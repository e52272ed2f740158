//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// The Secrets of two targets are swapped: c2, and one that leads to c1 itself by a Secret.
func TestSwappedSecretsDeleteNoPodUntilTheyAreAccepted(t *testing.T) {
	w := setUp(t)
	const itself = "itself"
	w.connectItself(t, itself)
	ids := map[string]string{"c2": w.clusterID(t, "c2"), itself: w.clusterID(t, itself)}
	if ids["c2"] == "" || ids["c2"] == ids[itself] {
		t.Fatalf("the cluster IDs are %v", ids)
	}
	delegates := w.logDelegates(t)
	for _, target := range []string{"c2", itself} {
		create(t, w.c1, w.pinned(target, 2))
	}
	w.available(t, "c2", itself)
	before := w.uids(t)

	w.swapSecrets(t, "c2", itself)
	t.Cleanup(func() { w.restoreC2(t, ids["c2"]) })
	for name, seen := range map[string]string{"c2": ids[itself], itself: ids["c2"]} {
		if message := w.says(t, name, v1alpha1.ReasonOtherCluster); !strings.Contains(message, seen) {
			t.Errorf("the message does not name the cluster %s: %s", seen, message)
		}
		w.isUnknown(t, "admiralty-"+name)
	}
	if after := w.uids(t); !maps.Equal(before, after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}

	w.accept(t, "c2", ids[itself])
	w.accept(t, itself, ids["c2"])
	w.replaced(t, before)
	w.available(t, "c2", itself)
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
}

// connectItself connects c1 to itself by a Secret.
func (w *world) connectItself(t *testing.T, name string) {
	t.Helper()
	multicluster := func(ctx context.Context, args ...string) error {
		args = append(args, "--source-context", "c1", "--target-context", "c1")
		out, err := run(ctx, "kubectl-multicluster", args...)
		if err != nil {
			return fmt.Errorf("kubectl multicluster %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	t.Cleanup(func() {
		if err := multicluster(context.WithoutCancel(t.Context()), "disconnect", name); err != nil {
			t.Error(err)
		}
	})
	if err := multicluster(t.Context(), "connect", name); err != nil {
		t.Fatal(err)
	}
	w.says(t, name, v1alpha1.ReasonConnected)
	w.awaitRights(t, w.c1)
}

// clusterID returns the ID of the cluster that a ClusterTarget is.
func (w *world) clusterID(t *testing.T, name string) string {
	t.Helper()
	target := &v1alpha1.ClusterTarget{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Name: name}, target); err != nil {
		t.Fatal(err)
	}
	return target.Status.ClusterID
}

// pinned returns a Deployment whose pods run in one target. It is called as the target.
func (w *world) pinned(target string, replicas int32) *appsv1.Deployment {
	template := inTarget(target, podTemplate(target))
	template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: target, Namespace: w.namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": target}},
			Template: template,
		},
	}
}

// available waits until all pods of the Deployments are ready, and there are no others.
func (w *world) available(t *testing.T, deployments ...string) {
	t.Helper()
	for _, name := range deployments {
		eventually(t, "Deployment "+name+" to be available", func(ctx context.Context) error {
			d := &appsv1.Deployment{}
			if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, d); err != nil {
				return err
			}
			s := d.Status
			if s.ObservedGeneration != d.Generation || s.Replicas != *d.Spec.Replicas || s.ReadyReplicas != s.Replicas {
				return fmt.Errorf("%d of %d pods are ready", s.ReadyReplicas, s.Replicas)
			}
			return nil
		})
	}
}

// uids returns the UIDs of the pods of all clusters that are not being deleted, with their names.
func (w *world) uids(t *testing.T) map[types.UID]string {
	t.Helper()
	all := map[types.UID]string{}
	for _, c := range w.all() {
		pods := &corev1.PodList{}
		if err := c.List(t.Context(), pods, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil {
				all[pods.Items[i].UID] = c.name + "/" + pods.Items[i].Name
			}
		}
	}
	return all
}

func (w *world) swapSecrets(t *testing.T, a, b string) {
	t.Helper()
	secrets := [2]corev1.Secret{}
	for i, name := range []string{a, b} {
		if err := w.c1.Get(t.Context(), client.ObjectKey{Namespace: "admiralty", Name: name}, &secrets[i]); err != nil {
			t.Fatal(err)
		}
	}
	secrets[0].Data, secrets[1].Data = secrets[1].Data, secrets[0].Data
	for i := range secrets {
		if err := w.c1.Update(t.Context(), &secrets[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// accept follows the message of a target under whose name another cluster answers.
func (w *world) accept(t *testing.T, name, id string) {
	t.Helper()
	w.kubectl(t, "patch", "clustertarget", name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"clusterID":%q}}`, id))
	w.says(t, name, v1alpha1.ReasonConnected)
}

// restoreC2 connects c2 again, as the cluster that it was.
func (w *world) restoreC2(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	out, err := run(
		ctx, "kubectl-multicluster", "connect", "c2", "--source-context", "c1", "--target-context", "c2", "--accept",
	)
	if err != nil {
		t.Errorf("connecting c2 again: %v\n%s", err, out)
	}
	target := &v1alpha1.ClusterTarget{}
	err = w.c1.Get(ctx, client.ObjectKey{Name: "c2"}, target)
	if err != nil || target.Spec.ClusterID != id || target.Status.ClusterID != id {
		t.Errorf("c2 is %q, and not %q again: %v", target.Status.ClusterID, id, err)
	}
}

func (w *world) isUnknown(t *testing.T, node string) {
	t.Helper()
	eventually(t, "node "+node+" to be Unknown", func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := w.c1.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
			return err
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", n.Status.Conditions)
	})
}

// replaced waits until none of the proxies of before is left.
func (w *world) replaced(t *testing.T, before map[types.UID]string) {
	t.Helper()
	eventually(t, "all proxies to be replaced", func(ctx context.Context) error {
		proxies, _, err := w.pods(ctx, w.c1)
		for i := range proxies {
			if _, was := before[proxies[i].UID]; was {
				err = errors.Join(err, fmt.Errorf("proxy %s is still there", proxies[i].Name))
			}
		}
		return err
	})
}

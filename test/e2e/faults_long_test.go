//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	managerNamespace = "admiralty"
	managerName      = "multicluster-scheduler-controller-manager"
)

// within is eventually with a time limit of its own. It returns the time that it waited.
func within(t *testing.T, limit time.Duration, what string, check func(ctx context.Context) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	eventuallyIn(ctx, t, what, check)
	took := time.Since(start)
	t.Logf("%s: after %s", what, took.Round(100*time.Millisecond))
	return took
}

// holds fails the test if check returns an error at any time during the period.
func holds(t *testing.T, period time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), period)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := check(ctx); err != nil && ctx.Err() == nil {
			t.Fatalf("%s, but: %v", what, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// clusters runs .local/bin/clusters, the program that runs the clusters.
func clusters(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	if out, err := run(ctx, "clusters", args...); err != nil {
		t.Fatalf("clusters %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// cutOffC2 parts c1 and c2. The function returned connects them again. The test ends with both targets Ready.
func (w *world) cutOffC2(t *testing.T) (heal func()) {
	t.Helper()
	w.endWell(t, "heal", "c2")
	clusters(t.Context(), t, "partition", "c2")
	return func() {
		t.Helper()
		clusters(t.Context(), t, "heal", "c2")
	}
}

// stopAPIServer stops the API server of a cluster. The function returned starts it again. The test ends with both
// targets Ready.
func (w *world) stopAPIServer(t *testing.T, name string) (start func()) {
	t.Helper()
	w.endWell(t, "start-apiserver", name)
	clusters(t.Context(), t, "stop-apiserver", name)
	return func() {
		t.Helper()
		clusters(t.Context(), t, "start-apiserver", name)
	}
}

// endWell runs a command of the program clusters when the test ends, to repair something, and waits until both targets
// are Ready.
func (w *world) endWell(t *testing.T, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if len(args) > 0 {
			clusters(ctx, t, args...)
		}
		eventuallyIn(ctx, t, "both targets to be Ready in the end", func(ctx context.Context) error {
			return errors.Join(
				w.nodeIs(ctx, "admiralty-c1", corev1.ConditionTrue),
				w.nodeIs(ctx, "admiralty-c2", corev1.ConditionTrue),
			)
		})
		for _, target := range []string{"c1", "c2"} {
			eventuallyIn(ctx, t, target+" to take pods in the end", func(ctx context.Context) error {
				return w.takesPod(ctx, target)
			})
		}
	})
}

// takesPod returns an error unless a pod that may only run in a target is bound. A new leader connects to its targets
// one after the other, and their nodes are Ready before. The namespace of the test is deleted afterwards, with the pod.
// It is created again if the test has deleted it.
func (w *world) takesPod(ctx context.Context, target string) error {
	pod := w.pod("last-in-"+target, inTarget(target, podTemplate("last")))
	switch err := w.c1.Create(ctx, pod); {
	case apierrors.IsNotFound(err):
		for _, c := range w.all() {
			err = errors.Join(err, client.IgnoreAlreadyExists(c.Create(ctx, w.namespaceIn(c))))
		}
		return err
	case client.IgnoreAlreadyExists(err) != nil:
		return err
	}
	if err := w.c1.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	if pod.Spec.NodeName != "admiralty-"+target {
		return fmt.Errorf("pod %s is on %q", pod.Name, pod.Spec.NodeName)
	}
	return nil
}

func (w *world) nodeIs(ctx context.Context, name string, want corev1.ConditionStatus) error {
	node := &corev1.Node{}
	if err := w.c1.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == want && (want != corev1.ConditionTrue || !tainted(node)) {
			return nil
		}
	}
	return fmt.Errorf("node %s: taints %v, conditions %v", name, node.Spec.Taints, node.Status.Conditions)
}

// tainted reports whether a taint about the node's health keeps pods away.
func tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
	})
}

func (w *world) nodeBecomes(t *testing.T, name string, want corev1.ConditionStatus, limit time.Duration) time.Duration {
	t.Helper()
	return within(t, limit, fmt.Sprintf("node %s with Ready=%s", name, want), func(ctx context.Context) error {
		return w.nodeIs(ctx, name, want)
	})
}

// isEmpty waits until no pods of earlier tests count in any cluster, so that all have the same room.
func (w *world) isEmpty(t *testing.T) {
	t.Helper()
	for _, cluster := range []*cluster{w.c1, w.c2} {
		within(t, time.Minute, "no earlier delegates to count in "+cluster.name, func(ctx context.Context) error {
			summary := &v1alpha1.ClusterSummary{}
			if err := cluster.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterSummaryName}, summary); err != nil {
				return err
			}
			for _, usage := range summary.Status.Sources {
				if pods := usage.Requested[corev1.ResourcePods]; !pods.IsZero() {
					return fmt.Errorf("%s pods of %s count", pods.String(), usage.ClusterID)
				}
			}
			return nil
		})
	}
}

// nodeReadyMessage returns the message of the node's condition Ready.
func (w *world) nodeReadyMessage(t *testing.T, name string) string {
	t.Helper()
	node := &corev1.Node{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Message
		}
	}
	return ""
}

// impatient adds a toleration to a template: its pods wait only so many seconds for a dead cluster.
func impatient(template *corev1.PodTemplateSpec, seconds int64) {
	template.Spec.Tolerations = append(template.Spec.Tolerations, corev1.Toleration{
		Key:               corev1.TaintNodeNotReady,
		Operator:          corev1.TolerationOpExists,
		Effect:            corev1.TaintEffectNoExecute,
		TolerationSeconds: &seconds,
	})
}

// quick returns the template of pods that end at once when they are deleted.
func quick(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	return template
}

// same fails unless the pods are the same as before, by their UIDs.
func same(t *testing.T, before, after *placement) {
	t.Helper()
	was, is := before.uids(), after.uids()
	for uid, name := range was {
		if is[uid] == "" {
			t.Errorf("pod %s is not there any more", name)
		}
	}
	for uid, name := range is {
		if was[uid] == "" {
			t.Errorf("pod %s was not there before", name)
		}
	}
}

// goneNow reports whether none of the nodes exists.
func goneNow(ctx context.Context, c *cluster, nodes ...string) error {
	for _, name := range nodes {
		err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{})
		if err == nil {
			return fmt.Errorf("node %s is there", name)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// scaleManager sets the number of a cluster's managers, and waits until exactly so many exist and are ready.
func scaleManager(ctx context.Context, t *testing.T, c *cluster, replicas int) {
	t.Helper()
	if out, err := runKubectl(ctx, "--context", c.name, "-n", managerNamespace, "scale", "deployment", managerName,
		"--replicas", strconv.Itoa(replicas)); err != nil {
		t.Fatalf("scaling the manager: %v\n%s", err, out)
	}
	managers(ctx, t, c, replicas)
}

func managers(ctx context.Context, t *testing.T, c *cluster, replicas int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	eventuallyIn(ctx, t, fmt.Sprintf("%d managers in %s", replicas, c.name), func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(managerNamespace)); err != nil {
			return err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.DeletionTimestamp != nil || !ready(pod) {
				return fmt.Errorf("%s is not ready, or stopping", pod.Name)
			}
		}
		if len(pods.Items) != replicas {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		return nil
	})
}

// managerRuns returns the number of restarts of each manager in c1, by the kubelet or by itself, by the pod's name.
func (w *world) managerRuns(t *testing.T) map[string]int32 {
	t.Helper()
	pods := &corev1.PodList{}
	if err := w.c1.List(t.Context(), pods, client.InNamespace(managerNamespace)); err != nil {
		t.Fatal(err)
	}
	runs := map[string]int32{}
	for i := range pods.Items {
		byKubelet, byItself, err := w.restarts(t.Context(), &pods.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		runs[pods.Items[i].Name] = byKubelet + int32(byItself)
	}
	return runs
}

// leader returns the manager that holds c1's Lease.
func (w *world) leader(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	eventually(t, "a leader", func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: managerName}, lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("nobody holds the lease")
		}
		holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		return w.c1.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: holder}, pod)
	})
	return pod
}

// killLeader kills the manager that leads in c1 with SIGKILL, so that it cannot release anything. It also has the
// manager's pod replaced, so that kills in a row do not add up to a back-off.
func (w *world) killLeader(t *testing.T) {
	t.Helper()
	pod := w.leader(t)
	signal(t, pod, syscall.SIGKILL)
	t.Logf("killed leader %s", pod.Name)
	if err := w.c1.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// signal sends a signal to the program of a manager's pod.
func signal(t *testing.T, pod *corev1.Pod, s syscall.Signal) {
	t.Helper()
	sent := 0
	for _, pid := range processesOf(t, pod.UID) {
		if err := syscall.Kill(pid, s); err == nil {
			sent++
		}
	}
	if sent == 0 {
		t.Fatalf("manager %s has no process", pod.Name)
	}
}

// processesOf finds the processes of a manager's pod.
func processesOf(t *testing.T, pod types.UID) []int {
	t.Helper()
	return processesOfProgram(t, pod, "multicluster-scheduler")
}

// processesOfProgram finds the processes of a pod that run a program, by their control group.
func processesOfProgram(t *testing.T, pod types.UID, name string) []int {
	t.Helper()
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range groups {
		group, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(group), "/pod"+string(pod)+"/") {
			continue
		}
		dir := filepath.Dir(path)
		program, err := os.Readlink(filepath.Join(dir, "exe"))
		if err != nil || filepath.Base(program) != name {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

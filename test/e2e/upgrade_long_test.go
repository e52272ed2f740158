//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// earlier is the version in which clusters trusted one another.
	earlier = "4e6879f7e696eeaae15ac4e202bd6a84817490a4"
	// alike is how long both sides have the earlier version before, and the present one afterwards.
	alike = time.Minute
)

var mixed = flag.Duration("mixed", 2*time.Minute,
	"how long the sides have different versions in TestUpgradeUnderLoad, in each order")

// TestUpgradeUnderLoad upgrades both clusters from an earlier version while pods come and go.
func TestUpgradeUnderLoad(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "../../hack/earlier.sh", earlier).CombinedOutput(); err != nil {
		t.Fatalf("building the earlier version: %v\n%s", err, out)
	}
	for name, order := range map[string][2]int{"targets first": {1, 0}, "sources first": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			w := setUp(t)
			w.installEarlier(t)
			w.awaitRights(t, w.c2)
			load := w.startLoad(t)
			load.goOn(t, alike)
			w.all()[order[0]].upgradeToPresent(t.Context(), t)
			load.goOn(t, *mixed)
			load.finishesJobs(t)
			w.all()[order[1]].upgradeToPresent(t.Context(), t)
			load.goOn(t, alike)
			load.end(t)
		})
	}
}

// installEarlier replaces the present version in both clusters, with all its objects, by the earlier one. At the end
// of the test, the present one is back.
func (w *world) installEarlier(t *testing.T) {
	t.Helper()
	w.endWell(t)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, c := range w.all() {
			c.upgradeToPresent(ctx, t)
		}
		connectAll(ctx, t, "kubectl-multicluster")
	})
	clusters(t.Context(), t, "load", localFile("images/earlier.tar"))
	for _, c := range w.all() {
		c.helm(t.Context(), t, "uninstall", release, "--wait")
		out, err := runKubectl(t.Context(), "--context", c.name, "get", "crd", "-o", "name")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		args := []string{"delete", "--ignore-not-found", "namespace/admiralty-leases"}
		for name := range strings.FieldsSeq(out) {
			if strings.HasSuffix(name, "."+v1alpha1.GroupName) {
				args = append(args, name)
			}
		}
		c.kubectl(t, args...)
		c.helm(t.Context(), t, "install", release, localFile("earlier/charts/multicluster-scheduler"), "--wait",
			"--set", "clusterName="+c.name, "--set", "controllerManager.image.tag=earlier")
	}
	connectAll(t.Context(), t, "../earlier/bin/kubectl-multicluster")
}

// connectAll makes both clusters targets of c1, with a version of the plug-in.
func connectAll(ctx context.Context, t *testing.T, program string) {
	t.Helper()
	for _, args := range [][]string{{"c1", "--self"}, {"c2", "--target-context", "c2"}} {
		args = append([]string{"connect", "--source-context", "c1"}, args...)
		if out, err := run(ctx, program, args...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}

// upgradeToPresent upgrades the release as docs/operations.md says, and waits until the managers are ready.
func (c *cluster) upgradeToPresent(ctx context.Context, t *testing.T) {
	t.Helper()
	if out, err := runKubectl(ctx, "--context", c.name, "apply", "--server-side", "--force-conflicts",
		"-f", localFile("../charts/multicluster-scheduler/crds")); err != nil {
		t.Fatalf("applying the custom resource definitions: %v\n%s", err, out)
	}
	c.helm(ctx, t, "upgrade", "--install", release, localFile("../charts/multicluster-scheduler"),
		"--reset-then-reuse-values", "--set", "clusterName="+c.name, "--set", "controllerManager.image.tag=dev",
		"--wait", "--timeout", "4m")
}

// load consists of pods that must stay, pods that come and go, and Jobs.
type load struct {
	w      *world
	steady map[types.UID]string
	// unready has since when steady pods, and their delegates, are not ready.
	unready map[types.UID]time.Time
	doubled func() error
	stop    func()
	jobs    int
	failed  error
}

const steadyPods = 6

func (w *world) startLoad(t *testing.T) *load {
	t.Helper()
	l := &load{w: w, unready: map[types.UID]time.Time{}, doubled: w.logDelegates(t).doubled}
	create(t, w.c1, w.webServer(steadyPods))
	l.steady = w.quiet(t, steadyPods).uids()

	churn := w.webServer(4)
	churn.Name, churn.Spec.Selector.MatchLabels["app"] = "churn", "churn"
	churn.Spec.Template.Labels["app"] = "churn"
	create(t, w.c1, churn)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.failed = l.comeAndGo(ctx)
	}()
	l.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(l.stop)
	return l
}

// comeAndGo scales a Deployment and starts Jobs until ctx ends.
func (l *load) comeAndGo(ctx context.Context) error {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for round := 0; ; round++ {
		replicas := 1 + 4*(round%2)
		_, scaled := runKubectl(ctx, "--context", "c1", "-n", l.w.namespace, "scale", "deployment/churn",
			fmt.Sprintf("--replicas=%d", replicas))
		job := l.w.job("sleep", "2")
		job.Name = fmt.Sprintf("job-%d", round)
		job.Spec.BackoffLimit = new(int32(0))
		created := l.w.c1.Create(ctx, job)
		if ctx.Err() != nil {
			return nil
		}
		if err := errors.Join(scaled, created); err != nil {
			return err
		}
		l.jobs++
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !l.waitForRoom(ctx) {
			return nil
		}
	}
}

// waitForRoom waits until few pods that come and go are left, and returns whether that was before ctx ended. On a slow
// machine, they would fill the clusters. Kubernetes would then preempt some for the managers that begin.
func (l *load) waitForRoom(ctx context.Context) bool {
	few := func(ctx context.Context) (bool, error) {
		proxies, _, err := l.w.pods(ctx, l.w.c1)
		if err != nil {
			return false, nil //nolint:nilerr // The API server may be busy: the next look decides.
		}
		unfinished := 0
		for i := range proxies {
			if phase := proxies[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
				unfinished++
			}
		}
		return unfinished <= steadyPods+5, nil
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, few) == nil
}

// goOn checks for a while that no steady pod is replaced, evicted or not ready for long.
func (l *load) goOn(t *testing.T, period time.Duration) {
	t.Helper()
	holds(t, period, "steady pods are disturbed by nobody", func(ctx context.Context) error {
		return errors.Join(l.undisturbed(ctx), l.doubled())
	})
}

func (l *load) undisturbed(ctx context.Context) error {
	p, err := l.w.placement(ctx)
	if err != nil {
		return err
	}
	now := p.uids()
	for uid, name := range l.steady {
		if now[uid] == "" {
			return fmt.Errorf("pod %s was replaced", name)
		}
	}
	pods := p.proxies
	for _, delegates := range p.delegates {
		pods = append(pods, delegates...)
	}
	for i := range pods {
		parent := types.UID(pods[i].Labels[v1alpha1.LabelParentUID])
		if l.steady[pods[i].UID] == "" && l.steady[parent] == "" {
			continue
		}
		if err := l.readySoon(&pods[i]); err != nil {
			return err
		}
		for _, status := range pods[i].Status.ContainerStatuses {
			if pods[i].DeletionTimestamp != nil || status.RestartCount > 0 {
				return fmt.Errorf("pod %s is being deleted, or started again", pods[i].Name)
			}
		}
	}
	return nil
}

// unreadyFor is for how long a busy machine may make a steady pod fail its probes.
const unreadyFor = 20 * time.Second

// readySoon returns an error if a steady pod, or its delegate, has not been ready for too long.
func (l *load) readySoon(pod *corev1.Pod) error {
	if ready(pod) {
		delete(l.unready, pod.UID)
		return nil
	}
	if l.unready[pod.UID].IsZero() {
		l.unready[pod.UID] = time.Now()
	}
	if since := l.unready[pod.UID]; time.Since(since) > unreadyFor {
		return fmt.Errorf("pod %s is not ready since %s", pod.Name, since.Format(time.TimeOnly))
	}
	return nil
}

// finishesJobs waits until a Job is complete that has yet to be created.
func (l *load) finishesJobs(t *testing.T) {
	t.Helper()
	known := map[string]bool{}
	jobs := &batchv1.JobList{}
	within(t, time.Minute, "to list the Jobs", func(ctx context.Context) error {
		return l.w.c1.List(ctx, jobs, client.InNamespace(l.w.namespace))
	})
	for i := range jobs.Items {
		known[jobs.Items[i].Name] = true
	}
	within(t, 4*time.Minute, "a new Job to complete", func(ctx context.Context) error {
		if err := l.w.c1.List(ctx, jobs, client.InNamespace(l.w.namespace)); err != nil {
			return err
		}
		for i := range jobs.Items {
			if !known[jobs.Items[i].Name] && jobs.Items[i].Status.Succeeded == 1 {
				return nil
			}
		}
		return errors.New("none is")
	})
}

// end waits until all Jobs are complete, without a failure, and nothing is lost or double.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	if l.failed != nil {
		t.Fatalf("the API server refused pods: %v", l.failed)
	}
	within(t, 4*time.Minute, "all Jobs to complete", func(ctx context.Context) error {
		jobs := &batchv1.JobList{}
		if err := l.w.c1.List(ctx, jobs, client.InNamespace(l.w.namespace)); err != nil {
			return err
		}
		complete := 0
		for i := range jobs.Items {
			if status := jobs.Items[i].Status; status.Failed > 0 {
				t.Fatalf("%s failed: %+v", jobs.Items[i].Name, status)
			} else if status.Succeeded == 1 && status.CompletionTime != nil {
				complete++
			}
		}
		if complete < l.jobs {
			return fmt.Errorf("%d of %d are", complete, l.jobs)
		}
		return nil
	})
	t.Logf("%d Jobs are complete", l.jobs)
	l.w.kubectl(t, "delete", "jobs", "--all", "--cascade=foreground", "--wait")
	l.w.kubectl(t, "delete", "deployment", "churn", "--cascade=foreground", "--wait")
	after := l.w.quiet(t, steadyPods).uids()
	for uid, name := range l.steady {
		if after[uid] == "" {
			t.Errorf("pod %s was replaced", name)
		}
	}
	if err := l.doubled(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"admiralty-c1", "admiralty-c2"} {
		if err := l.w.nodeIs(t.Context(), name, corev1.ConditionTrue); err != nil {
			t.Error(err)
		}
	}
}

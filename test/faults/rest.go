package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// atRest returns nil if controllers have what they want, and each proxy has its delegate and each delegate its proxy.
func (l *lab) atRest(ctx context.Context) error {
	switch err := l.accept(ctx); {
	case err == nil && !l.setBack.Load():
		l.history.Violate(checker.NoFalseAlarm, "a target says that it was set back, and it was not")
	case err != nil && !errors.Is(err, errNothingToAccept):
		return err
	}
	if err := l.managersLead(ctx); err != nil {
		return err
	}
	if err := l.sourceRenews(ctx); err != nil {
		return err
	}
	if err := l.nodesReady(ctx); err != nil {
		return err
	}
	if err := l.controllersDone(ctx); err != nil {
		return err
	}
	found, err := l.find(ctx)
	if err != nil {
		return err
	}
	if err := found.matches(l.history.Allowed); err != nil {
		return err
	}
	return l.processesMatch(found)
}

// leadsWithin is how long ago a leader renewed its Lease at most. It does so every two seconds.
const leadsWithin = 6 * time.Second

// managersLead returns an error unless both clusters have a leader. Without one, nodes are Ready until their Leases
// have run out.
func (l *lab) managersLead(ctx context.Context) error {
	for _, name := range []string{source, target} {
		lease, err := l.lease(ctx, name)
		if err != nil {
			return err
		}
		if renewed := lease.Spec.RenewTime; renewed == nil || time.Since(renewed.Time) > leadsWithin {
			return fmt.Errorf("nobody leads the managers of %s since %v", name, renewed)
		}
	}
	return nil
}

// renewsWithin is how long ago the source renewed its Lease in the target at most. It does so every five seconds. If
// its leader dies, the next one begins 15 s after the last renewal.
const renewsWithin = 12 * time.Second

// sourceRenews returns an error if the target, whose fence counts from the last renewal, has not heard of the source.
func (l *lab) sourceRenews(ctx context.Context) error {
	if last := l.lastRenewal(ctx, target); time.Since(time.UnixMicro(last.at)) > renewsWithin {
		return fmt.Errorf("the source has not renewed its Lease in %s since %v", target, time.UnixMicro(last.at))
	}
	return nil
}

func (l *lab) nodesReady(ctx context.Context) error {
	for _, name := range []string{source, target} {
		node := &corev1.Node{}
		if err := l.clusters[source].Get(ctx, client.ObjectKey{Name: "admiralty-" + name}, node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s is not Ready: %s %s", node.Name, c.Reason, c.Message)
			}
		}
		if len(node.Spec.Taints) > 1 { // its own
			return fmt.Errorf("node %s has taints %v", node.Name, node.Spec.Taints)
		}
	}
	return nil
}

func (l *lab) controllersDone(ctx context.Context) error {
	in := client.InNamespace(l.namespace)
	deployments, sets, jobs := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{}
	for _, list := range []client.ObjectList{deployments, sets, jobs} {
		if err := l.clusters[source].List(ctx, list, in); err != nil {
			return err
		}
	}
	for _, d := range deployments.Items {
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas ||
			s.Replicas != *d.Spec.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Errorf("of Deployment %s: it wants %d pods, has %+v", d.Name, *d.Spec.Replicas, s)
		}
	}
	for _, d := range sets.Items {
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.Replicas != *d.Spec.Replicas ||
			s.ReadyReplicas != *d.Spec.Replicas {
			return fmt.Errorf("of StatefulSet %s: it wants %d pods, has %+v", d.Name, *d.Spec.Replicas, s)
		}
	}
	for _, j := range jobs.Items {
		if j.Status.Failed > 0 {
			l.history.ViolateOf(j.Name, checker.ExitCodes,
				"Job %s counts %d failed pods, and none can fail", j.Name, j.Status.Failed)
		} else if j.Status.Succeeded != *j.Spec.Completions {
			return fmt.Errorf("of Job %s: it has %d completions of %d", j.Name, j.Status.Succeeded, *j.Spec.Completions)
		}
	}
	return nil
}

// found holds the objects of the namespace.
type found struct {
	proxies   map[types.UID]*corev1.Pod
	delegates map[types.UID][]place // by the proxy's UID
	chaperons map[types.UID][]string
}

type place struct {
	cluster string
	pod     *corev1.Pod
}

func (l *lab) find(ctx context.Context) (*found, error) {
	f := &found{
		proxies: map[types.UID]*corev1.Pod{}, delegates: map[types.UID][]place{}, chaperons: map[types.UID][]string{},
	}
	for name, c := range l.clusters {
		pods, chaperons := &corev1.PodList{}, &v1alpha1.PodChaperonList{}
		for _, list := range []client.ObjectList{pods, chaperons} {
			if err := c.List(ctx, list, client.InNamespace(l.namespace)); err != nil {
				return nil, err
			}
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if parent := types.UID(pod.Labels[v1alpha1.LabelParentUID]); parent != "" {
				f.delegates[parent] = append(f.delegates[parent], place{cluster: name, pod: pod})
			} else {
				f.proxies[pod.UID] = pod
			}
		}
		for _, chaperon := range chaperons.Items {
			parent := types.UID(chaperon.Labels[v1alpha1.LabelParentUID])
			f.chaperons[parent] = append(f.chaperons[parent], name)
		}
	}
	return f, nil
}

// matches returns an error unless proxies and delegates belong together, and show the same. A proxy that has finished
// outlives its delegate, if somebody deletes that.
func (f *found) matches(allowed func(types.UID) bool) error {
	for parent, where := range f.chaperons {
		if f.proxies[parent] == nil || len(where) != 1 {
			return fmt.Errorf("PodChaperons of %s in %v, its proxy exists: %t", parent, where, f.proxies[parent] != nil)
		}
	}
	for parent, places := range f.delegates {
		if f.proxies[parent] == nil {
			return fmt.Errorf("delegate %s in %s has no proxy", places[0].pod.Name, places[0].cluster)
		}
	}
	for uid, proxy := range f.proxies {
		if len(f.delegates[uid]) == 0 && allowed(uid) && checker.Finished(proxy.Status.Phase) {
			continue
		}
		if err := isLike(proxy, f.delegates[uid]); err != nil {
			return err
		}
	}
	return nil
}

// isLike returns an error unless the proxy has one delegate, which it is like, and neither has to change.
func isLike(proxy *corev1.Pod, places []place) error {
	if len(places) != 1 {
		return fmt.Errorf("proxy %s (%s) on %q has %d delegates",
			proxy.Name, proxy.UID, proxy.Spec.NodeName, len(places))
	}
	delegate := places[0].pod
	if proxy.Spec.NodeName != "admiralty-"+places[0].cluster || proxy.DeletionTimestamp != nil ||
		delegate.DeletionTimestamp != nil || proxy.Status.Phase != delegate.Status.Phase ||
		proxy.Status.Phase == corev1.PodPending {
		return fmt.Errorf("proxy %s on %q is %s, its delegate in %s %s, being deleted: %t and %t", proxy.Name,
			proxy.Spec.NodeName, proxy.Status.Phase, places[0].cluster, delegate.Status.Phase,
			proxy.DeletionTimestamp != nil, delegate.DeletionTimestamp != nil)
	}
	if proxy.Labels["app"] == task && proxy.Status.Phase == corev1.PodRunning {
		return fmt.Errorf("%s has not finished yet", proxy.Name)
	}
	return nil
}

// processesMatch returns an error if a delegate runs that no API server knows.
func (l *lab) processesMatch(f *found) error {
	running, err := checker.Processes(l.namespace)
	if err != nil {
		return err
	}
	for _, places := range f.delegates {
		for _, p := range places {
			if p.pod.Status.Phase == corev1.PodRunning && len(running[p.pod.UID]) == 0 {
				return fmt.Errorf("delegate %s in %s is Running, and has no process", p.pod.Name, p.cluster)
			}
		}
	}
	if left := l.history.Leftovers(running); len(left) > 0 {
		return fmt.Errorf("%v run, and do not exist any more", left)
	}
	return nil
}

// caughtUp returns an error unless the checker knows the present state of all pods.
func (l *lab) caughtUp(ctx context.Context) error {
	f, err := l.find(ctx)
	if err != nil {
		return err
	}
	exist := maps.Clone(f.proxies)
	for _, places := range f.delegates {
		for _, p := range places {
			exist[p.pod.UID] = p.pod
		}
	}
	if name := l.history.Lags(exist); name != "" {
		return fmt.Errorf("the checker knows another state of pod %s", name)
	}
	return nil
}

// bereave deletes the delegates of bare pods that have finished, with their PodChaperons. The pods must stay as they
// are. It returns when another pod has come and finished: by then, the source has seen what happened before.
func (l *lab) bereave(ctx context.Context) error {
	pods, err := l.allOf(ctx, []string{task})
	ended := finished(pods)
	if errors.Is(err, errNothing) || err == nil && len(ended) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range ended {
		l.history.Allow(ended[i].UID, checker.DelegateDeleted)
		cluster := strings.TrimPrefix(ended[i].Spec.NodeName, "admiralty-")
		if err := until(ctx, func(ctx context.Context) error {
			_, err := l.kubectlOutput(ctx, cluster, "delete", "podchaperon", "--cascade=foreground",
				"--selector="+v1alpha1.LabelParentUID+"="+string(ended[i].UID))
			return err
		}); err != nil {
			return err
		}
	}
	later := l.task(fmt.Sprintf("later-%d", time.Now().UnixNano()), time.Second, 0)
	if err := l.clusters[source].Create(ctx, later); err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		if err := l.clusters[source].Get(ctx, client.ObjectKeyFromObject(later), later); err != nil {
			return err
		}
		if !checker.Finished(later.Status.Phase) {
			return fmt.Errorf("%s is %s", later.Name, later.Status.Phase)
		}
		return nil
	})
}

// sweep deletes what has finished, and undoes operations that last, so that each round begins alike.
func (l *lab) sweep(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := l.clusters[source].List(ctx, pods, client.InNamespace(l.namespace)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if app := pod.Labels["app"]; app == task || app == job {
			l.history.Allow(pod.UID, checker.Deleted)
		}
	}
	return until(ctx, func(ctx context.Context) error {
		if err := l.kubectl(ctx, "delete", "pods", "--selector=app=task", "--wait=false"); err != nil {
			return err
		}
		return l.kubectl(ctx, "delete", "jobs", "--all", "--wait=false")
	})
}

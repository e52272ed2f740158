package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// operation is something that users or administrators do in a moment.
type operation struct {
	name string
	// counts says that the operation is among the results, because it disturbs pods.
	counts bool
	// begins says that the operation begins something that must finish.
	begins bool
	// moves says that the operation may move a fenced pod.
	moves bool
	// timed says that the time that the operation takes is among the results.
	timed bool
	// prepare does what comes before that time. It may be nil.
	prepare func(ctx context.Context, l *lab) error
	do      func(ctx context.Context, l *lab, r *rand.Rand) error
}

func operations() []operation {
	virtual := "admiralty-" + target
	return []operation{
		{name: "a task begins", begins: true, do: startTask},
		{name: "another task begins", begins: true, do: startTask},
		{name: "a Job begins", begins: true, do: startJob},
		{name: "the Deployment is scaled", do: func(ctx context.Context, l *lab, r *rand.Rand) error {
			l.history.Changes(web)
			return l.kubectl(ctx, "scale", "deployment/web", "--replicas="+strconv.Itoa(2+r.IntN(7)))
		}},
		{name: "the StatefulSet is scaled", do: func(ctx context.Context, l *lab, r *rand.Rand) error {
			l.history.Changes(db)
			return l.kubectl(ctx, "scale", "statefulset/db", "--replicas="+strconv.Itoa(1+r.IntN(3)))
		}},
		{name: "the Deployment is rolled out", do: func(ctx context.Context, l *lab, _ *rand.Rand) error {
			l.history.Changes(web)
			return l.kubectl(ctx, "rollout", "restart", "deployment/web")
		}},
		{name: "a pod of the StatefulSet is deleted", counts: true, moves: true,
			do: deleteProxy(checker.Deleted, db, fenced)},
		{name: "a pod is deleted", counts: true, do: deleteProxy(checker.Deleted, web, task)},
		{name: "a pod is deleted by force", counts: true, do: deleteProxy(checker.DeletedByForce, web, task)},
		{name: "a delegate is deleted", counts: true, moves: true,
			do: deleteInTarget(checker.DelegateDeleted, "pod", []string{web, task, db, fenced, alone})},
		{name: "a delegate is deleted by force", counts: true, do: deleteInTarget(
			checker.DelegateDeletedByForce, "pod", []string{web, task}, "--grace-period=0", "--force")},
		{name: "a PodChaperon is deleted", counts: true, do: deleteInTarget(
			checker.DelegateDeleted, "podchaperon", []string{web, task, db}, "--cascade=background")},
		{name: "a PodChaperon is deleted in the foreground", counts: true, do: deleteInTarget(
			checker.DelegateDeleted, "podchaperon", []string{web, task}, "--cascade=foreground")},
		{name: "the virtual node is cordoned", counts: true, moves: true, do: func(
			ctx context.Context, l *lab, _ *rand.Rand,
		) error {
			return l.mustFind(ctx, source, "cordon", virtual)
		}},
		{name: "the virtual node is drained", counts: true, moves: true, do: drainAmid(target)},
		{name: "the virtual node of the source is drained", counts: true, moves: true, do: drainAmid(source)},
		{name: "the virtual node is deleted", counts: true, moves: true, do: func(
			ctx context.Context, l *lab, _ *rand.Rand,
		) error {
			return l.kubectl(ctx, "delete", "node", virtual, "--wait=false")
		}},
	}
}

// drainAmid evacuates a cluster, whatever else is broken. It waits for that and for the budget, so it need not come to
// an end.
func drainAmid(name string) func(context.Context, *lab, *rand.Rand) error {
	return func(ctx context.Context, l *lab, _ *rand.Rand) error {
		if err := l.kubectl(ctx, "cordon", "admiralty-"+name); err != nil {
			return err
		}
		if err := l.drain(ctx, name, 15*time.Second); err != nil {
			text := strings.TrimSpace(err.Error())
			l.say("  not drained: %s", text[strings.LastIndex(text, "\n")+1:]) // It says what it waits for.
		}
		return nil
	}
}

// drain evacuates the target, which has all pods of the Deployment, while nothing else happens. It checks that it comes
// to an end, and that the budget of the Deployment is kept.
func drain() operation {
	return operation{
		name: "the virtual node is drained alone", counts: true, timed: true, prepare: placeWeb,
		do: func(ctx context.Context, l *lab, _ *rand.Rand) error {
			drained := make(chan error, 1)
			go func() { drained <- l.drain(ctx, target, 2*restWithin) }()
			ticker := time.NewTicker(pollEvery)
			defer ticker.Stop()
			for {
				select {
				case err := <-drained:
					if err != nil {
						l.late(ctx, "nothing is broken, and a drain does not end: %v", err)
					}
					return err
				case <-ticker.C:
				}
				for _, of := range []func(context.Context, string) ([]corev1.Pod, error){l.proxies, l.delegates} {
					if pods, err := of(ctx, web); err == nil && serving(pods) < webReplicas-1 {
						l.history.Violate(checker.Budgets, "%s", describe(pods))
					}
				}
			}
		},
	}
}

// placeWeb has all pods of the Deployment run in the target.
func placeWeb(ctx context.Context, l *lab) error {
	if err := until(ctx, func(ctx context.Context) error {
		return l.kubectl(ctx, "cordon", "admiralty-"+source)
	}); err != nil {
		return err
	}
	defer func() { _ = l.uncordon(context.WithoutCancel(ctx), source) }()
	l.history.Changes(web)
	if err := until(ctx, func(ctx context.Context) error {
		return l.kubectl(ctx, "rollout", "restart", "deployment/web")
	}); err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		pods, err := l.proxies(ctx, web)
		if err != nil {
			return err
		}
		for i := range pods {
			if !isIn(&pods[i], target) {
				return fmt.Errorf("%s is on %q, %s", pods[i].Name, pods[i].Spec.NodeName, pods[i].Status.Phase)
			}
		}
		return l.controllersDone(ctx)
	})
}

// hangs is how much longer than its own time-out kubectl may take.
const hangs = time.Minute

// drain evacuates a cluster, and returns when the pods are gone, or after the time-out.
func (l *lab) drain(ctx context.Context, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+hangs)
	defer cancel()
	l.history.Drains(name, true)
	defer l.history.Drains(name, false)
	return l.kubectl(ctx, "drain", "admiralty-"+name, "--pod-selector=app in (web,db,fenced,alone)",
		"--ignore-daemonsets", "--timeout="+timeout.String(),
		"--request-timeout=1m") // kubectl ends a drain with the first request that is too slow.
}

// proxies returns the pods of the source with this label app. Delegates in the source are others.
func (l *lab) proxies(ctx context.Context, app string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := l.clusters[source].List(ctx, pods, client.InNamespace(l.namespace), client.MatchingLabels{"app": app})
	isDelegate := func(p corev1.Pod) bool { return p.Labels[v1alpha1.LabelParentUID] != "" }
	return slices.DeleteFunc(pods.Items, isDelegate), err
}

// appOfDelegate is the label app as a delegate has it.
const appOfDelegate = v1alpha1.GroupName + "/app"

// delegates returns the delegates with this label app in all clusters. Those of the target come first: pods that move
// to the source meanwhile count twice rather than not at all.
func (l *lab) delegates(ctx context.Context, app string) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for _, name := range []string{target, source} {
		pods := &corev1.PodList{}
		if err := l.clusters[name].List(ctx, pods, client.InNamespace(l.namespace),
			client.MatchingLabels{appOfDelegate: app}); err != nil {
			return nil, err
		}
		all = append(all, pods.Items...)
	}
	return all, nil
}

// serving returns how many pods are Ready and are not being deleted.
func serving(pods []corev1.Pod) int {
	return len(slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !serves(&p) }))
}

func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// describe says which of the pods serve.
func describe(pods []corev1.Pod) string {
	says := make([]string, 0, len(pods))
	for i := range pods {
		says = append(says, fmt.Sprintf("%s: %t", pods[i].Name, serves(&pods[i])))
	}
	return fmt.Sprintf("during a drain, %d pods serve: %s", serving(pods), strings.Join(says, ", "))
}

func startTask(ctx context.Context, l *lab, r *rand.Rand) error {
	return l.clusters[source].Create(ctx, l.drawTask(r))
}

func (l *lab) drawTask(r *rand.Rand) *corev1.Pod {
	name := fmt.Sprintf("task-%08x", r.Uint32())
	lasts := time.Duration(1+r.IntN(20)) * time.Second
	return l.task(name, lasts, r.IntN(4))
}

func startJob(ctx context.Context, l *lab, r *rand.Rand) error {
	name := fmt.Sprintf("job-%08x", r.Uint32())
	return l.clusters[source].Create(ctx, l.job(name, time.Duration(1+r.IntN(10))*time.Second))
}

// errNothing says that an operation found nothing to do, so that it does not count.
var errNothing = errors.New("there is nothing to do it to")

// mustFind is kubectl, and returns errNothing if kubectl finds nothing, or changes nothing.
func (l *lab) mustFind(ctx context.Context, name string, args ...string) error {
	output, err := l.kubectlOutput(ctx, name, args...)
	if err == nil && (strings.Contains(output, "No resources found") || strings.Contains(output, "already cordoned")) {
		return errNothing
	}
	return err
}

// allOf returns the pods of the source's namespace with one of the labels, or errNothing.
func (l *lab) allOf(ctx context.Context, apps []string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := l.clusters[source].List(ctx, pods, client.InNamespace(l.namespace)); err != nil {
		return nil, err
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Labels[v1alpha1.LabelParentUID] != "" || !slices.Contains(apps, p.Labels["app"])
	})
	if len(pods.Items) == 0 {
		return nil, errNothing
	}
	return pods.Items, nil
}

// deleteProxy deletes a pod of one of the apps: this very one, and not the next one of its name.
func deleteProxy(asked checker.How, apps ...string) func(context.Context, *lab, *rand.Rand) error {
	return func(ctx context.Context, l *lab, r *rand.Rand) error {
		pods, err := l.allOf(ctx, apps)
		if err != nil {
			return err
		}
		pod := &pods[r.IntN(len(pods))]
		l.history.Allow(pod.UID, asked)
		options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
		if asked == checker.DeletedByForce {
			options = append(options, client.GracePeriodSeconds(0))
		}
		err = l.clusters[source].Delete(ctx, pod, options...)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return errNothing
		}
		return err
	}
}

// deleteInTarget deletes the delegate or the PodChaperon of a pod, wherever it is. A pod that is not bound may have one
// in each target. If pods have finished, one of them is chosen half of the time: it must stay as it is.
func deleteInTarget(
	asked checker.How, kind string, apps []string, how ...string,
) func(context.Context, *lab, *rand.Rand) error {
	return func(ctx context.Context, l *lab, r *rand.Rand) error {
		pods, err := l.allOf(ctx, apps)
		if err != nil {
			return err
		}
		if ended := finished(pods); len(ended) > 0 && r.IntN(2) == 0 {
			pods = ended
		}
		pod := &pods[r.IntN(len(pods))]
		where := []string{strings.TrimPrefix(pod.Spec.NodeName, "admiralty-")}
		if pod.Spec.NodeName == "" {
			where = []string{target, source}
		}
		l.history.Allow(pod.UID, asked)
		args := append([]string{"delete", kind, "--wait=false",
			"--selector=" + v1alpha1.LabelParentUID + "=" + string(pod.UID)}, how...)
		for _, name := range where {
			if err = l.mustFind(ctx, name, args...); !errors.Is(err, errNothing) {
				return err
			}
		}
		return errNothing
	}
}

// finished returns the pods that have finished.
func finished(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !checker.Finished(p.Status.Phase) })
}

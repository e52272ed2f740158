package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

const (
	creators = 20 // clients that create pods at the same time
	podLabel = "burst"
)

func newPod(l load, i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d-%d", l.scenario, l.kind, len(l.targets), i), Namespace: namespace,
			Labels: map[string]string{podLabel: l.kind},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"type": "kwok"},
			Tolerations:  []corev1.Toleration{{Key: "kwok.x-k8s.io/node", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: "simulated",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
				}},
			}},
			TerminationGracePeriodSeconds: new(int64(1)),
		},
	}
	if l.real {
		pod.Spec.NodeSelector, pod.Spec.Tolerations = nil, nil
		pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Args = realImage(0), []string{"sleep", "infinity"}
	}
	if l.kind == report.Elected {
		pod.Annotations = map[string]string{v1alpha1.AnnotationElect: ""}
	}
	return pod
}

// create creates a pod, whose latency counts from at.
func (b *bench) create(ctx context.Context, w *watch, pod *corev1.Pod, at time.Time) error {
	w.ask(pod.Name, at)
	return b.source().Create(ctx, pod)
}

// allAtOnce creates the pods, as fast as the creators can.
func (b *bench) allAtOnce(ctx context.Context, w *watch, l load) error {
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range l.pods {
		group.Go(func() error { return b.create(creating, w, newPod(l, i), time.Now()) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return w.untilRunning(ctx)
}

// oneByOne creates each pod when nothing is left of the one before.
func (b *bench) oneByOne(ctx context.Context, w *watch, l load) error {
	for i := range l.pods {
		if _, err := b.clear(ctx); err != nil {
			return err
		}
		if err := b.create(ctx, w, newPod(l, i), time.Now()); err != nil {
			return err
		}
		if err := w.untilRunning(ctx); err != nil {
			return err
		}
	}
	return nil
}

// every returns a start function that creates a pod at each interval, and deletes it when it is as old as life (zero:
// never). Latencies count from the time when a pod is due, so a slow API server does not make them look better.
func (b *bench) every(interval, life time.Duration) func(context.Context, *watch, load) error {
	return func(ctx context.Context, w *watch, l load) error {
		group, creating := errgroup.WithContext(ctx)
		begin := time.Now()
		for i := range l.pods {
			due := begin.Add(time.Duration(i) * interval)
			group.Go(func() error {
				pod := newPod(l, i)
				if err := sleepUntil(creating, due); err != nil {
					return err
				}
				if err := b.create(creating, w, pod, due); err != nil || life == 0 {
					return err
				}
				if err := sleepUntil(creating, due.Add(life)); err != nil {
					return err
				}
				w.delete()
				return b.source().Delete(creating, pod)
			})
		}
		if err := group.Wait(); err != nil || life != 0 {
			return err
		}
		return w.untilRunning(ctx)
	}
}

func sleepUntil(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitAll waits until nothing is left of the deleted pods.
func (b *bench) awaitAll(ctx context.Context, w *watch, r *report.Result) error {
	err := b.untilEmpty(ctx)
	r.DeleteSeconds = time.Since(w.lastDeletion()).Seconds()
	return err
}

// evictAll evicts all pods, as kubectl drain does with those of a node, and waits until nothing is left.
func (b *bench) evictAll(ctx context.Context, _ *watch, r *report.Result) error {
	pods := &corev1.PodList{}
	if err := b.source().List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return err
	}
	start := time.Now()
	group, evicting := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range pods.Items {
		group.Go(func() error { return b.evict(evicting, &pods.Items[i]) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("evicting: %w", err)
	}
	r.EvictionsPerSecond = float64(len(pods.Items)) / time.Since(start).Seconds()
	err := b.untilEmpty(ctx)
	r.DeleteSeconds = time.Since(start).Seconds()
	return err
}

// evict repeats the request as long as the API server answers that it is too busy.
func (b *bench) evict(ctx context.Context, pod *corev1.Pod) error {
	for {
		err := b.source().SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
		seconds, busy := apierrors.SuggestsClientDelay(err)
		if !busy {
			return client.IgnoreNotFound(err)
		}
		if wait := sleepUntil(ctx, time.Now().Add(time.Duration(seconds)*time.Second)); wait != nil {
			return errors.Join(err, wait)
		}
	}
}

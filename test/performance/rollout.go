package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// rollout changes the image of a Deployment, and waits until its rollout is complete.
func (b *bench) rollout(ctx context.Context) error {
	for _, kind := range []string{report.Plain, report.Elected} {
		l := load{scenario: report.Rollout, kind: kind, pods: b.scaled(rolloutPods), targets: []string{source}}
		if kind == report.Elected {
			l.targets = []string{changeTarget}
		}
		if err := b.rollOut(ctx, l); err != nil {
			return fmt.Errorf("rolling out %s pods: %w", kind, err)
		}
	}
	return nil
}

func (b *bench) rollOut(ctx context.Context, l load) error {
	fmt.Printf("%s: starting a Deployment of %d %s pods, targets %v\n", l.scenario, l.pods, l.kind, l.targets)
	if err := b.onlyTargets(ctx, l.targets); err != nil {
		return err
	}
	deployment := newDeployment(l)
	if err := b.within(ctx, func(ctx context.Context) error {
		if err := b.source().Create(ctx, deployment); err != nil {
			return err
		}
		_, err := b.untilRolledOut(ctx, deployment.Name, nil)
		return err
	}); err != nil {
		return err
	}
	idle, err := b.idle(ctx)
	if err != nil {
		return err
	}
	for round := range rounds {
		if err := b.within(ctx, func(ctx context.Context) error {
			return b.measureRollout(ctx, l, deployment.Name, round, idle)
		}); err != nil {
			return err
		}
	}
	return b.within(ctx, func(ctx context.Context) error {
		if err := b.clearDeployments(ctx); err != nil {
			return err
		}
		_, err := b.clear(ctx)
		return err
	})
}

// measureRollout changes the image, waits until nothing is left of the pods before, and appends the figures to the
// results.
func (b *bench) measureRollout(ctx context.Context, l load, name string, round int, idle rates) error {
	r := report.Result{Label: b.label, Scenario: l.scenario, Kind: l.kind, Targets: len(l.targets), Pods: l.pods}
	container := map[string]any{"name": "main", "image": fmt.Sprintf("simulated:%d", round+1)}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"containers": []any{container}}}}})
	if err != nil {
		return err
	}
	written, took, err := b.count(ctx, func(ctx context.Context) error {
		start := time.Now()
		complete, err := b.untilRolledOut(ctx, name, patch)
		if err != nil {
			return err
		}
		r.CompleteSeconds = complete.Sub(start).Seconds()
		err = b.untilPods(ctx, l)
		r.DeleteSeconds = time.Since(start).Seconds()
		return err
	})
	if err != nil {
		return err
	}
	written.without(idle, took).perPod(&r, clustersOf(l))
	return b.note(r)
}

// untilRolledOut patches a Deployment, unless the patch is nil, waits until its rollout is complete, and returns when
// a watch showed this.
func (b *bench) untilRolledOut(ctx context.Context, name string, patch []byte) (time.Time, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(b.clusters[source].set, 0,
		informers.WithNamespace(namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	seen := make(chan *appsv1.Deployment, 1000)
	stop, err := inform(ctx, factory.Apps().V1().Deployments().Informer(), func(obj any) {
		select {
		case seen <- obj.(*appsv1.Deployment):
		case <-ctx.Done():
		}
	})
	if err != nil {
		return time.Time{}, err
	}
	defer stop()
	deployments := b.clusters[source].set.AppsV1().Deployments(namespace)
	generation := int64(1)
	if patch != nil {
		changed, err := deployments.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return time.Time{}, err
		}
		generation = changed.Generation
	}
	for {
		select {
		case deployment := <-seen:
			if rolledOut(deployment, generation) {
				return time.Now(), nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for the rollout of Deployment %s: %w", name, ctx.Err())
		}
	}
}

// rolledOut says whether the rollout of a generation is complete, as `kubectl rollout status` does.
func rolledOut(d *appsv1.Deployment, generation int64) bool {
	s := d.Status
	return d.Generation >= generation && s.ObservedGeneration >= d.Generation &&
		s.UpdatedReplicas == *d.Spec.Replicas && s.Replicas == s.UpdatedReplicas &&
		s.AvailableReplicas == s.UpdatedReplicas
}

// untilPods waits until there are as many pods and delegates as the load has, so none of the last generation is left.
func (b *bench) untilPods(ctx context.Context, l load) error {
	clusters := append([]string{source}, clustersOf(l)...)
	return eventually(ctx, "no pod of the generation before is left", func(ctx context.Context) (bool, error) {
		for _, name := range clusters {
			pods := &corev1.PodList{}
			if err := b.clusters[name].client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
				return false, fmt.Errorf("listing pods in %s: %w", name, err)
			}
			if len(pods.Items) != l.pods {
				return false, nil
			}
		}
		return true, nil
	})
}

func newDeployment(l load) *appsv1.Deployment {
	pod := newPod(l, 0)
	labels := map[string]string{podLabel: l.kind}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: l.scenario + "-" + l.kind, Namespace: namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(l.pods)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pod.Annotations},
				Spec:       pod.Spec,
			},
		},
	}
}

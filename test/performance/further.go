package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// Further targets are ClusterTargets that lead to c1 and c2 again: ten whole clusters would leave a small machine no
// time for pods. The source tells the objects of two targets that lead to one cluster apart by the label target-hash.
const (
	furtherPrefix = "again-"
	furtherLabel  = "performance-further-target"
)

func furtherNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", furtherPrefix, i+1)
	}
	return names
}

func isFurther(target string) bool { return strings.HasPrefix(target, furtherPrefix) }

// leadsTo returns the name of the cluster behind a target.
func leadsTo(target string) string {
	if !isFurther(target) {
		return target
	}
	if last := target[len(target)-1]; last%2 == 0 {
		return source
	}
	return "c2"
}

// further lists the measured further targets and their clusters, as in "again-1 to c2".
func (b *bench) further() []string {
	targets := slices.Concat(b.sets...)
	if b.scenarios[report.Blackhole] {
		targets = append(targets, tenTargets()...)
	}
	slices.Sort(targets)
	var lines []string
	for _, name := range slices.Compact(targets) {
		if isFurther(name) {
			lines = append(lines, name+" to "+leadsTo(name))
		}
	}
	return lines
}

func tenTargets() []string { return append(clusterNames(), furtherNames(7)...) }

// with creates the further ones of the targets, calls do, and removes them again.
func (b *bench) with(ctx context.Context, targets []string, do func() error) (err error) {
	names := slices.DeleteFunc(slices.Clone(targets), func(name string) bool { return !isFurther(name) })
	if len(names) == 0 {
		return do()
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
		defer cancel()
		if removeErr := b.removeFurther(ctx); err == nil {
			err = removeErr
		}
	}()
	if err := b.makeFurther(ctx, names); err != nil {
		return err
	}
	return do()
}

func (b *bench) makeFurther(ctx context.Context, names []string) error {
	model := &v1alpha1.ClusterTarget{}
	if err := b.source().Get(ctx, client.ObjectKey{Name: "c2"}, model); err != nil {
		return fmt.Errorf("getting ClusterTarget c2, to copy its connection: %w", err)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: model.Spec.KubeconfigSecret.Namespace, Name: model.Spec.KubeconfigSecret.Name}
	if err := b.source().Get(ctx, key, secret); err != nil {
		return fmt.Errorf("getting the Secret of ClusterTarget c2: %w", err)
	}
	for _, name := range names {
		meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{furtherLabel: "true"}}
		target := &v1alpha1.ClusterTarget{ObjectMeta: meta, Spec: v1alpha1.ClusterTargetSpec{Self: true}}
		if leadsTo(name) != source {
			target.Spec = *model.Spec.DeepCopy()
			target.Spec.KubeconfigSecret.Name = name
			meta.Namespace = key.Namespace
			same := &corev1.Secret{ObjectMeta: meta, Type: secret.Type, Data: secret.Data}
			if err := b.source().Create(ctx, same); err != nil {
				return fmt.Errorf("creating Secret %s: %w", name, err)
			}
		}
		if err := b.source().Create(ctx, target); err != nil {
			return fmt.Errorf("creating ClusterTarget %s: %w", name, err)
		}
	}
	return b.untilReady(ctx, names, metav1.ConditionTrue)
}

// untilReady waits until the condition Ready of all these ClusterTargets has the status.
func (b *bench) untilReady(ctx context.Context, names []string, status metav1.ConditionStatus) error {
	what := fmt.Sprintf("the condition Ready of ClusterTargets %s is %s", strings.Join(names, ", "), status)
	return eventually(ctx, what, func(ctx context.Context) (bool, error) {
		targets := &v1alpha1.ClusterTargetList{}
		if err := b.source().List(ctx, targets); err != nil {
			return false, fmt.Errorf("listing ClusterTargets: %w", err)
		}
		count := 0
		for _, target := range targets.Items {
			is := meta.IsStatusConditionPresentAndEqual(target.Status.Conditions, v1alpha1.ConditionReady, status)
			if is && slices.Contains(names, target.Name) {
				count++
			}
		}
		return count == len(names), nil
	})
}

// removeFurther deletes the further targets, if there are any, and waits until their virtual nodes are gone.
func (b *bench) removeFurther(ctx context.Context) error {
	ours := client.MatchingLabels{furtherLabel: "true"}
	if err := b.source().DeleteAllOf(ctx, &v1alpha1.ClusterTarget{}, ours); err != nil {
		return fmt.Errorf("deleting the further ClusterTargets: %w", err)
	}
	secrets := &corev1.SecretList{}
	if err := b.source().List(ctx, secrets, ours); err != nil {
		return fmt.Errorf("listing the Secrets of further ClusterTargets: %w", err)
	}
	for i := range secrets.Items {
		if err := client.IgnoreNotFound(b.source().Delete(ctx, &secrets.Items[i])); err != nil {
			return fmt.Errorf("deleting Secret %s: %w", secrets.Items[i].Name, err)
		}
	}
	return eventually(ctx, "the virtual nodes of further targets are gone", func(ctx context.Context) (bool, error) {
		nodes, err := b.virtualNodes(ctx)
		return err == nil && !slices.ContainsFunc(nodes, func(node corev1.Node) bool {
			return isFurther(node.Labels[v1alpha1.LabelClusterTargetName])
		}), err
	})
}

package restriction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Rule is the rules of one ClusterSource or Source.
type Rule struct {
	// Source names the ClusterSource or Source, for people.
	Source string
	Rules  *v1alpha1.DelegateRules
}

// Restriction finds and checks rules. It is safe for concurrent use.
type Restriction struct {
	reader    client.Reader
	evaluator func() (policy.Evaluator, error)
}

// New returns a Restriction. The reader reads ClusterSources and Sources, and may read them from a cache.
func New(reader client.Reader) *Restriction {
	return &Restriction{reader: reader, evaluator: sync.OnceValues(newEvaluator)}
}

// newEvaluator takes a millisecond, so it is called once, and only if there are rules.
func newEvaluator() (policy.Evaluator, error) {
	return policy.NewEvaluator(policy.DefaultChecks(), nil)
}

// RulesOf returns all rules that the delegate of the PodChaperon must meet: those of the sources that may have written
// it. There may be none. An error means that the rules are unknown, so no delegate may be created.
func (r *Restriction) RulesOf(ctx context.Context, chaperon *v1alpha1.PodChaperon) ([]Rule, error) {
	candidates, err := r.sourcesIn(ctx, chaperon.Namespace)
	if err != nil {
		return nil, err
	}
	clusterID := chaperon.Labels[v1alpha1.LabelParentClusterID]
	known := slices.ContainsFunc(candidates, func(s candidate) bool {
		return s.clusterID != "" && s.clusterID == clusterID
	})
	var rules []Rule
	for _, s := range candidates {
		if s.Rules != nil && (!known || s.clusterID == "" || s.clusterID == clusterID) {
			rules = append(rules, s.Rule)
		}
	}
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.Source, b.Source) })
	return rules, nil
}

// candidate is a ClusterSource or Source that may have written a PodChaperon.
type candidate struct {
	Rule
	// clusterID is the only ID that the source may use. If it is empty, the source may use any.
	clusterID string
}

// sourcesIn returns the sources of a namespace: all ClusterSources, and the Sources there.
func (r *Restriction) sourcesIn(ctx context.Context, namespace string) ([]candidate, error) {
	clusterSources, sources := &v1alpha1.ClusterSourceList{}, &v1alpha1.SourceList{}
	if err := r.reader.List(ctx, clusterSources, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterSources: %w", err)
	}
	if err := r.reader.List(ctx, sources, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Sources of namespace %q: %w", namespace, err)
	}
	var all []candidate
	for i := range clusterSources.Items {
		s := &clusterSources.Items[i]
		rule := Rule{fmt.Sprintf("ClusterSource %q", s.Name), s.Spec.Delegates}
		all = append(all, candidate{rule, s.Spec.ClusterID})
	}
	for i := range sources.Items {
		s := &sources.Items[i]
		all = append(all, candidate{Rule{fmt.Sprintf("Source %q", s.Name), s.Spec.Delegates}, s.Spec.ClusterID})
	}
	return all, nil
}

// Check returns a *RefusedError if the pod breaks one of the rules, or if one of them is invalid. The pod is the one
// that the API server would store.
func (r *Restriction) Check(rules []Rule, pod *corev1.Pod) error {
	evaluator, err := r.evaluator()
	if err != nil {
		return fmt.Errorf("preparing the checks of Pod Security: %w", err)
	}
	var broken []string
	for _, rule := range rules {
		broken = append(broken, check(evaluator, rule, pod)...)
	}
	if len(broken) == 0 {
		return nil
	}
	return &RefusedError{message: strings.Join(broken, "; ")}
}

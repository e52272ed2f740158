package restriction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
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
	self      string
	evaluator func() (policy.Evaluator, error)
}

// New returns a Restriction. The reader reads ClusterSources and Sources, and may read them from a cache. self is the
// user name of this manager, or empty.
func New(reader client.Reader, self string) *Restriction {
	return &Restriction{reader: reader, self: self, evaluator: sync.OnceValues(newEvaluator)}
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
	// users are the user names of the source in this cluster.
	users []string
	// everywhere says that administrators wrote it, for the whole cluster: it is a ClusterSource.
	everywhere bool
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
		rule, users := Rule{fmt.Sprintf("ClusterSource %q", s.Name), s.Spec.Delegates}, []string{s.Spec.UserName}
		if account := s.Spec.ServiceAccount; account != nil {
			users = append(users, serviceaccount.MakeUsername(account.Namespace, account.Name))
		}
		all = append(all, candidate{rule, s.Spec.ClusterID, users, true})
	}
	for i := range sources.Items {
		s := &sources.Items[i]
		rule, users := Rule{fmt.Sprintf("Source %q", s.Name), s.Spec.Delegates}, []string{s.Spec.UserName}
		if account := s.Spec.ServiceAccountName; account != "" {
			users = append(users, serviceaccount.MakeUsername(s.Namespace, account))
		}
		all = append(all, candidate{rule, s.Spec.ClusterID, users, false})
	}
	return all, nil
}

// CheckAccount returns a *RefusedError if the pod would run under the service account of a source, or of this manager.
// No rule allows this: the delegate of one source would have the rights of another, and keep them when its own source
// loses its rights.
func (r *Restriction) CheckAccount(ctx context.Context, pod *corev1.Pod) error {
	sources, err := r.sourcesIn(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	account := accountOf(&pod.Spec)
	user := serviceaccount.MakeUsername(pod.Namespace, account)
	owner := ""
	if user == r.self {
		owner = "this manager"
	}
	for _, s := range sources {
		if slices.Contains(s.users, user) {
			owner = s.Source
		}
	}
	if owner == "" {
		return nil
	}
	return &RefusedError{message: fmt.Sprintf("spec.serviceAccountName is %q, the account of %s, whose rights no "+
		"delegate may have: use another service account, or give the source an account of its own", account, owner)}
}

// Check returns a *RefusedError if the pod breaks one of the rules, or if one of them is invalid. The pod is the one
// that the API server would store.
func (r *Restriction) Check(rules []Rule, pod *corev1.Pod) error {
	if len(rules) == 0 {
		return nil
	}
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

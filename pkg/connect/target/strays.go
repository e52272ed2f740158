package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// strayInterval is how often strays are looked for, as long as some could not be deleted.
	strayInterval = time.Minute
	// strayPage and strayPages bound how many strays are read at a time. The others follow.
	strayPage, strayPages = 500, 20
	// namedTargets is how many targets a selector names at most.
	namedTargets = 100
)

// strays deletes PodChaperons of this source that belong to no (Cluster)Target any more: the target was renamed, or
// deleted while its cluster could not be reached, or the source was restored from a backup of before it existed. No
// cache shows them.
//
// Nothing is believed for it but the API server of the source: it must have no target that a PodChaperon could be of,
// and no such proxy. PodChaperons are listed before targets are, so a target that was made meanwhile is not missed.
type strays struct {
	options Options
	target  *engage.Target
	live    client.Reader // of the target; what it reads does not pass the gate, which knows one target only
	grant   string        // the name of the SourceGrant, if there is one
}

// end deletes strays until there are none, or life ends. Those whose proxies exist may follow later: the proxies go
// with the virtual node of the deleted target.
func (s *strays) end(life context.Context) {
	for life.Err() == nil {
		left, err := s.endThose(life)
		if err != nil && life.Err() == nil {
			log.FromContext(life).Error(err, "Some PodChaperons of a deleted target could not be deleted")
		}
		if !left && err == nil {
			return
		}
		timer := s.options.Clock.NewTimer(strayInterval)
		select {
		case <-timer.C():
		case <-life.Done():
			timer.Stop()
		}
	}
}

// endThose deletes the strays that have no proxies, and says whether others are left.
func (s *strays) endThose(ctx context.Context) (left bool, err error) {
	candidates, more, err := s.list(ctx)
	if err != nil || len(candidates) == 0 {
		return more, err
	}
	targets, err := s.targets(ctx, s.options.APIReader)
	if err != nil {
		return true, err
	}
	var ended []client.Object
	for i := range candidates {
		chaperon := &candidates[i]
		parent := gate.ParentOf(chaperon)
		named := parent.Key.Namespace == chaperon.Namespace && parent.Key.Name != "" && parent.UID != ""
		if !named || targets.made(chaperon) {
			continue // Without a proxy's name, it is not one that this source made.
		}
		lives, err := s.proxyExists(ctx, parent)
		if err != nil {
			return true, err
		}
		if lives {
			more = true
			continue
		}
		ended = append(ended, chaperon)
	}
	if len(ended) == 0 {
		return more, nil
	}
	log.FromContext(ctx).Info("Deleting PodChaperons of targets that do not exist any more", "podChaperons", len(ended))
	return more, deleteAll(ctx, s.target, ended, metav1.DeletePropagationForeground)
}

// list returns PodChaperons of this source that seem to be of no target, and whether there may be more.
func (s *strays) list(ctx context.Context) (found []metav1.PartialObjectMetadata, more bool, err error) {
	known, err := s.targets(ctx, s.options.Client)
	if err != nil {
		return nil, false, err
	}
	of, err := s.selector(known)
	if err != nil {
		return nil, false, err
	}
	var errs []error
	for _, namespace := range s.namespaces(ctx) {
		one, cut, err := s.listIn(ctx, namespace, of)
		if apierrors.IsForbidden(err) {
			continue // The source has nothing there, or may not end it.
		}
		found, more, errs = append(found, one...), more || cut, append(errs, err)
	}
	return found, more, errors.Join(errs...)
}

func (s *strays) listIn(
	ctx context.Context, namespace string, of labels.Selector,
) (found []metav1.PartialObjectMetadata, more bool, err error) {
	list := &metav1.PartialObjectMetadataList{}
	for range strayPages {
		next := &client.ListOptions{
			LabelSelector: of, Namespace: namespace, Limit: strayPage, Continue: list.Continue,
		}
		list = &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperonList"))
		if err := within(ctx, func(ctx context.Context) error { return s.live.List(ctx, list, next) }); err != nil {
			return found, true, fmt.Errorf("listing PodChaperons of deleted targets: %w", err)
		}
		found = append(found, list.Items...)
		if list.Continue == "" {
			return found, false, nil
		}
	}
	return found, true, nil
}

// namespaces returns the namespaces to list, or an empty one for all.
func (s *strays) namespaces(ctx context.Context) []string {
	in := s.target.MayHaveCopies()
	if s.target.Copied == nil || s.grant == "" {
		return in
	}
	grant := &v1alpha1.SourceGrant{}
	key := types.NamespacedName{Name: s.grant}
	if within(ctx, func(ctx context.Context) error { return s.live.Get(ctx, key, grant) }) != nil {
		return in // Those with copies are better than none.
	}
	return sets.List(sets.New(in...).Insert(namedBy(grant)...))
}

// selector selects the PodChaperons of this source but those of the targets given, if these are not too many.
func (s *strays) selector(known targetLabels) (labels.Selector, error) {
	ours, err := labels.NewRequirement(
		v1alpha1.LabelParentClusterID, selection.Equals, []string{s.options.Source.ClusterID})
	if err != nil {
		return nil, fmt.Errorf("selecting PodChaperons: %w", err)
	}
	ids := sets.New(translate.TargetID(s.target.Key))
	if known.ids.Len() <= namedTargets {
		ids = ids.Union(known.ids)
	}
	others, err := labels.NewRequirement(v1alpha1.LabelTargetID, selection.NotIn, sets.List(ids))
	if err != nil {
		return nil, fmt.Errorf("selecting PodChaperons: %w", err)
	}
	return labels.NewSelector().Add(*ours, *others), nil
}

// proxyExists asks the source's API server.
func (s *strays) proxyExists(ctx context.Context, parent gate.Parent) (bool, error) {
	proxy := &metav1.PartialObjectMetadata{}
	proxy.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := within(ctx, func(ctx context.Context) error { return s.options.APIReader.Get(ctx, parent.Key, proxy) })
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for the proxy %q of a PodChaperon: %w", parent.Key, err)
	}
	return err == nil && proxy.UID == parent.UID, nil
}

// targetLabels are the values by which PodChaperons name the targets that exist.
type targetLabels struct{ ids, hashes sets.Set[string] }

// made says whether a PodChaperon was made for one of the targets. One without such labels belongs to nobody whom we
// know, and counts as made.
func (t targetLabels) made(chaperon metav1.Object) bool {
	id, hash := chaperon.GetLabels()[v1alpha1.LabelTargetID], chaperon.GetLabels()[v1alpha1.LabelTargetHash]
	if id != "" {
		return t.ids.Has(id)
	}
	return hash == "" || t.hashes.Has(hash)
}

// targets returns the labels of all (Cluster)Targets.
func (s *strays) targets(ctx context.Context, from client.Reader) (targetLabels, error) {
	all := targetLabels{sets.New[string](), sets.New[string]()}
	clusterTargets, targets := &v1alpha1.ClusterTargetList{}, &v1alpha1.TargetList{}
	err := within(ctx, func(ctx context.Context) error {
		return errors.Join(from.List(ctx, clusterTargets), from.List(ctx, targets))
	})
	if err != nil {
		return all, fmt.Errorf("listing targets: %w", err)
	}
	add := func(key types.NamespacedName) {
		all.ids.Insert(translate.TargetID(key))
		all.hashes.Insert(translate.TargetHash(key))
	}
	for i := range clusterTargets.Items {
		add(client.ObjectKeyFromObject(&clusterTargets.Items[i]))
	}
	for i := range targets.Items {
		add(client.ObjectKeyFromObject(&targets.Items[i]))
	}
	return all, nil
}

// within gives a request its deadline.
func within(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	return request(ctx)
}

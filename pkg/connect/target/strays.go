package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// strayInterval is how often strays are looked for, as long as some could not be deleted.
	strayInterval = time.Minute
	// strayPage and strayPages bound how many strays are read at a time, in all namespaces. The others follow.
	strayPage, strayPages = 500, 20
	// namedTargets is how many targets a selector names at most.
	namedTargets = 100
)

// strays deletes PodChaperons of this source that belong to no (Cluster)Target any more: the target was renamed, or
// deleted while its cluster could not be reached, or the source was restored from a backup of before it existed. No
// cache shows them.
//
// Nothing is believed for it but the API server of the source: it must have no target that a PodChaperon could be of,
// and no such proxy that could need it. PodChaperons are listed before targets are, so a target that was made meanwhile
// is not missed.
type strays struct {
	options Options
	target  *engage.Target
	live    client.Reader // of the target; what it reads does not pass the gate, which knows one target only
	grant   string        // the name of the SourceGrant, if there is one
	from    string        // the namespace to begin with
}

// end deletes strays until there are none, or life ends. Those whose proxies need them may follow later: the proxies go
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
		pause.For(life, s.options.Clock, strayInterval)
	}
}

// endThose deletes the strays that no proxies need, and says whether others are left.
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
	for _, one := range candidates {
		if targets.made(one.id, one.hash) {
			continue
		}
		node, lives, err := s.nodeOfProxy(ctx, one.parent)
		if err != nil {
			return true, err
		}
		if lives && s.mayServe(node, targets) {
			more = true
			continue
		}
		ended = append(ended, one.chaperon())
	}
	if len(ended) == 0 {
		return more, nil
	}
	log.FromContext(ctx).Info("Deleting PodChaperons of targets that do not exist any more", "podChaperons", len(ended))
	_, err = deleteAll(ctx, s.target, ended, metav1.DeletePropagationForeground)
	return more, err
}

// candidate is what is kept of a PodChaperon that may be a stray: its marks. The target may show many, and large ones.
type candidate struct {
	key      types.NamespacedName
	uid      types.UID
	id, hash string // of its target
	parent   gate.Parent
}

// candidateOf returns false for a PodChaperon that this source surely has not made, because it names no proxy, or its
// marks are longer than they can be.
func candidateOf(chaperon *metav1.PartialObjectMetadata) (candidate, bool) {
	parent := gate.ParentOf(chaperon)
	one := candidate{
		key: client.ObjectKeyFromObject(chaperon), uid: chaperon.UID, parent: parent,
		id: chaperon.Labels[v1alpha1.LabelTargetID], hash: chaperon.Labels[v1alpha1.LabelTargetHash],
	}
	for _, mark := range []string{
		one.key.Name, string(one.uid), one.id, one.hash, parent.Key.Name, string(parent.UID),
	} {
		if len(mark) > validation.DNS1123SubdomainMaxLength {
			return candidate{}, false
		}
	}
	named := parent.Key.Namespace == chaperon.Namespace && parent.Key.Name != "" && parent.UID != ""
	return one, named
}

func (c candidate) chaperon() client.Object {
	return &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.key.Namespace, Name: c.key.Name, UID: c.uid},
	}
}

// list returns PodChaperons of this source that seem to be of no target, and whether there may be more. It reads
// one namespace after the other, and keeps so many that they fill strayPages pages. The next call begins with the first
// namespace that this one did not read.
func (s *strays) list(ctx context.Context) (found []candidate, more bool, err error) {
	known, err := s.targets(ctx, s.options.Client)
	if err != nil {
		return nil, false, err
	}
	of, err := s.selector(known)
	if err != nil {
		return nil, false, err
	}
	var errs []error
	namespaces := s.namespaces(ctx)
	first, _ := slices.BinarySearch(namespaces, s.from)
	s.from = ""
	for _, namespace := range slices.Concat(namespaces[first:], namespaces[:first]) {
		if len(found) >= strayPage*strayPages {
			s.from = namespace
			return found, true, errors.Join(errs...)
		}
		one, cut, err := s.listIn(ctx, namespace, of, strayPage*strayPages-len(found))
		if apierrors.IsForbidden(err) {
			continue // The source has nothing there, or may not end it.
		}
		found, more, errs = append(found, one...), more || cut, append(errs, err)
	}
	return found, more, errors.Join(errs...)
}

// listIn returns at most so many candidates of a namespace, and whether there may be more.
func (s *strays) listIn(
	ctx context.Context, namespace string, of labels.Selector, most int,
) (found []candidate, more bool, err error) {
	list := &metav1.PartialObjectMetadataList{}
	for range strayPages {
		next := &client.ListOptions{
			LabelSelector: of, Namespace: namespace, Limit: strayPage, Continue: list.Continue,
		}
		list = &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperonList"))
		err := timeouts.Within(ctx, func(ctx context.Context) error { return s.live.List(ctx, list, next) })
		if err != nil {
			return found, true, fmt.Errorf("listing PodChaperons of deleted targets: %w", err)
		}
		for i := range list.Items {
			one, may := candidateOf(&list.Items[i])
			if !may {
				continue
			}
			if len(found) >= most {
				return found, true, nil
			}
			found = append(found, one)
		}
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
	if timeouts.Within(ctx, func(ctx context.Context) error { return s.live.Get(ctx, key, grant) }) != nil {
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

// nodeOfProxy returns the node of the proxy, if there is such a proxy. It asks the source's API server, unless the
// cache has the proxy: then it is looked for again anyway. A pod that is bound never gets another node.
func (s *strays) nodeOfProxy(ctx context.Context, parent gate.Parent) (node string, exists bool, err error) {
	cached := &corev1.Pod{}
	err = s.options.Client.Get(ctx, parent.Key, cached, client.UnsafeDisableDeepCopy)
	if err == nil && cached.UID == parent.UID {
		return cached.Spec.NodeName, true, nil
	}
	proxy := &corev1.Pod{}
	err = timeouts.Within(ctx, func(ctx context.Context) error {
		return s.options.APIReader.Get(ctx, parent.Key, proxy)
	})
	if client.IgnoreNotFound(err) != nil {
		return "", false, fmt.Errorf("looking for the proxy %q of a PodChaperon: %w", parent.Key, err)
	}
	return proxy.Spec.NodeName, err == nil && proxy.UID == parent.UID, nil
}

// mayServe says whether a stray may be the PodChaperon of a proxy on a node. It is not if the proxy is bound to another
// target that exists. If that target leads to this cluster, the PodChaperon is its own, because the name does not
// depend on the target: somebody has changed the labels, and feedback mends them.
func (s *strays) mayServe(node string, existing targetLabels) bool {
	clusterID, exists := existing.nodes[node]
	return !exists || node == s.target.NodeName || clusterID != "" && clusterID == s.target.ClusterID
}

// targetLabels are the values by which PodChaperons name the targets that exist, and the IDs of their clusters by the
// names of their virtual nodes, as far as they are known.
type targetLabels struct {
	ids, hashes sets.Set[string]
	nodes       map[string]string
}

// made says whether a PodChaperon with these labels was made for one of the targets. One without such labels belongs to
// nobody whom we know, and counts as made.
func (t targetLabels) made(id, hash string) bool {
	if id != "" {
		return t.ids.Has(id)
	}
	return hash == "" || t.hashes.Has(hash)
}

// targets returns the labels of all (Cluster)Targets.
func (s *strays) targets(ctx context.Context, from client.Reader) (targetLabels, error) {
	all := targetLabels{sets.New[string](), sets.New[string](), map[string]string{}}
	var targets []client.Object
	err := timeouts.Within(ctx, func(ctx context.Context) (err error) {
		targets, err = targetkind.List(ctx, from, "")
		return err
	})
	for _, target := range targets {
		key := client.ObjectKeyFromObject(target)
		all.ids.Insert(translate.TargetID(key))
		all.hashes.Insert(translate.TargetHash(key))
		all.nodes[translate.VirtualNodeName(key)] = targetkind.Status(target).ClusterID
	}
	return all, err
}

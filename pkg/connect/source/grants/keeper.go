package grants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// Names of sources contain no colon. A Source of the same name may have its RoleBinding in the same namespace, so
	// the prefixes differ from those of Sources.
	fullPrefix    = "multicluster-clustersource:"
	keptPrefix    = "multicluster-clustersource-kept:"
	leavingPrefix = "multicluster-clustersource-leaving:"
	// everywherePrefix begins the names of the ClusterRoleBindings of earlier versions.
	everywherePrefix = "multicluster-source:"
	// earlierPrefix begins the names of the ClusterRoleBindings that take the place of these until the source is
	// upgraded, too.
	earlierPrefix = "multicluster-source-earlier:"

	// indexSource finds the RoleBindings of a ClusterSource.
	indexSource = "clustersource"

	writesAtATime    = 10
	problemsReported = 3
)

// Options of NewKeeper. All fields that are no booleans or lists are required.
type Options struct {
	// Client reads from the manager's cache, and writes. The cache has only RoleBindings with LabelSource.
	Client    client.Client
	APIReader client.Reader
	// Config is for watches of the metadata of copies.
	Config *rest.Config
	// FullClusterRoleName is bound in the namespaces that a source may use, LeavingClusterRoleName in those that it no
	// longer may. The manager must have the right to bind them.
	FullClusterRoleName    string
	LeavingClusterRoleName string
	// EarlierClusterRoleName is bound in the whole cluster to sources of earlier versions.
	EarlierClusterRoleName string
	// ReleaseNamespace is left out by default.
	ReleaseNamespace string
	// LeasesNamespace has the Leases of sources. If empty, there are none.
	LeasesNamespace string
	// EnforceDefaultExclusions refuses namespaces that are left out by default, even if a source used them when an
	// earlier version let it.
	EnforceDefaultExclusions bool
	// SecretNamespaces are the namespaces in which the manager may list Secrets. If empty, it may in all.
	SecretNamespaces []string
}

// ClusterSource is a ClusterSource as Keep needs it.
type ClusterSource struct {
	Name      string
	Selector  *metav1.LabelSelector
	ClusterID string
	Users     []string // the names of the subjects
	Subjects  []rbacv1.Subject
	Owner     metav1.OwnerReference
}

// Outcome is where a ClusterSource may act. The lists are sorted.
type Outcome struct {
	Namespaces []string
	// Leaving are the namespaces in which it may end what it has.
	Leaving []string
	// WouldRefuse are those of Namespaces that it loses once the default exclusions are enforced.
	WouldRefuse []string
	// Everywhere says that the ClusterRoleBinding of an earlier version still exists.
	Everywhere bool
	// Problem says why the manager cannot find out where the source has objects, if that matters.
	Problem string
}

// InvalidSelectorError means that a selector cannot be used. The rights stay as they are.
type InvalidSelectorError struct{ error }

// Unwrap returns the reason.
func (e InvalidSelectorError) Unwrap() error { return e.error }

// Keeper keeps the RoleBindings of ClusterSources in step. Its methods are safe for concurrent use.
type Keeper struct {
	options Options
	objects Objects
	// copies has those that sources may read, and the others.
	copies []*copies
	open   openQuestions
}

// NewKeeper returns a Keeper.
func NewKeeper(options Options) (*Keeper, error) {
	k := &Keeper{options: options, objects: Objects{Client: options.Client, APIReader: options.APIReader}}
	for _, watched := range []map[schema.GroupVersionResource][]string{
		readable(), others(options.SecretNamespaces),
	} {
		some, err := newCopies(options.Config, watched)
		if err != nil {
			return nil, err
		}
		some.onChange(func(c change) {
			if c.gone || c.user == "" {
				k.open.ask(c.namespace)
			}
		})
		k.copies = append(k.copies, some)
	}
	return k, nil
}

// Register adds the Keeper's index and its watches of copies to the manager. They begin with the first question.
func (k *Keeper) Register(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &rbacv1.RoleBinding{}, indexSource, func(o client.Object) []string {
		if name, ok := SourceOf(o); ok {
			return []string{name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing role bindings by source: %w", err)
	}
	for _, some := range k.copies {
		if err := mgr.Add(some); err != nil {
			return fmt.Errorf("adding the watches of copies: %w", err)
		}
	}
	return nil
}

// SourceOf returns the name of the ClusterSource that a RoleBinding belongs to.
func SourceOf(binding client.Object) (name string, ok bool) {
	right, name := rightsOf(binding)
	return name, right != none
}

// prefixes begin the names of the RoleBindings that give the rights.
func prefixes() map[rights]string {
	return map[rights]string{full: fullPrefix, kept: keptPrefix, leaving: leavingPrefix}
}

func rightsOf(binding client.Object) (r rights, source string) {
	for r, prefix := range prefixes() {
		if name, ok := strings.CutPrefix(binding.GetName(), prefix); ok {
			return r, name
		}
	}
	return none, ""
}

// Keep gives a ClusterSource its rights, and takes those away that it must not have. It writes only differences. The
// error is an InvalidSelectorError if the selector cannot be used.
func (k *Keeper) Keep(ctx context.Context, s ClusterSource) (Outcome, error) {
	within, err := newScope(s.Selector, k.options.ReleaseNamespace)
	if err != nil {
		return Outcome{}, InvalidSelectorError{err}
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := k.options.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return Outcome{}, fmt.Errorf("listing namespaces: %w", err)
	}
	has, err := k.existing(ctx, s.Name)
	if err != nil {
		return Outcome{}, err
	}
	everywhere, err := k.everywhere(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	p := k.plan(ctx, s, namespaces.Items, func(namespace *metav1.PartialObjectMetadata) situation {
		return situation{
			choice:      within.selects(namespace.Name, namespace.Labels),
			terminating: namespace.DeletionTimestamp != nil,
			has:         strongest(has[namespace.Name]),
			everywhere:  everywhere != nil,
			enforce:     k.options.EnforceDefaultExclusions,
		}
	})
	k.open.keep(s.Name, p.open)
	changed, err := k.write(ctx, s, p, has)
	if err != nil {
		return Outcome{}, err
	}
	// The API server learns of RoleBindings through the same watch as our cache. So the ClusterRoleBinding goes in a
	// later round, when the cache has all RoleBindings.
	if everywhere != nil && !changed && len(p.undecided) == 0 {
		err = k.objects.Delete(ctx, everywhere)
		everywhere = nil
	}
	return p.outcome(everywhere != nil), err
}

func (k *Keeper) plan(
	ctx context.Context, s ClusterSource, namespaces []metav1.PartialObjectMetadata,
	in func(namespace *metav1.PartialObjectMetadata) situation,
) plan {
	p := plan{rights: map[string]rights{}, open: sets.New[string]()}
	for i := range namespaces {
		namespace := &namespaces[i]
		d := decide(in(namespace), func() use { return k.use(ctx, s, namespace.Name) })
		p.add(namespace.Name, d, namespace.DeletionTimestamp != nil)
	}
	for _, some := range k.copies {
		if len(p.undecided) > 0 {
			p.problem = cmp.Or(p.problem, some.problem())
		}
	}
	return p
}

// everywhere returns the ClusterRoleBinding of an earlier version, and nil if there is none. It makes what takes its
// place.
func (k *Keeper) everywhere(ctx context.Context, s ClusterSource) (*rbacv1.ClusterRoleBinding, error) {
	binding := &rbacv1.ClusterRoleBinding{}
	err := k.options.Client.Get(ctx, client.ObjectKey{Name: everywherePrefix + s.Name}, binding)
	if apierrors.IsNotFound(err) {
		return nil, k.keepEarlier(ctx, s, false)
	}
	if err != nil {
		return nil, fmt.Errorf("getting the ClusterRoleBinding of an earlier version: %w", err)
	}
	return binding, k.keepEarlier(ctx, s, true)
}

// keepEarlier lets a source read its objects in the whole cluster if it had the right before an upgrade. The
// ClusterRoleBinding itself is the memory. So the right does not come back once the ClusterRoleBinding was deleted.
func (k *Keeper) keepEarlier(ctx context.Context, s ClusterSource, everywhere bool) error {
	meta := metav1.ObjectMeta{Name: earlierPrefix + s.Name, OwnerReferences: []metav1.OwnerReference{s.Owner}}
	if !everywhere {
		err := k.options.Client.Get(ctx, client.ObjectKey{Name: meta.Name}, &rbacv1.ClusterRoleBinding{})
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	_, err := k.objects.Ensure(ctx, BindingTo("ClusterRole", k.options.EarlierClusterRoleName, meta, s.Subjects))
	return err
}

// existing returns the rights that the RoleBindings of a source give, by namespace. The last ones are the strongest.
func (k *Keeper) existing(ctx context.Context, source string) (map[string][]rights, error) {
	list := &rbacv1.RoleBindingList{}
	err := k.options.Client.List(ctx, list, client.MatchingFields{indexSource: source}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing role bindings: %w", err)
	}
	found := map[string][]rights{}
	for i := range list.Items {
		r, _ := rightsOf(&list.Items[i])
		found[list.Items[i].Namespace] = append(found[list.Items[i].Namespace], r)
	}
	for _, has := range found {
		slices.Sort(has)
	}
	return found, nil
}

func strongest(has []rights) rights {
	if len(has) == 0 {
		return none
	}
	return has[len(has)-1]
}

// use says whether a source has objects in a namespace. PodChaperons tell no user. So without a cluster ID, any of them
// may be the source's.
func (k *Keeper) use(ctx context.Context, s ClusterSource, namespace string) use {
	k.open.add(namespace, s.Name)
	chaperons := &v1alpha1.PodChaperonList{}
	err := k.options.Client.List(ctx, chaperons, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return unknown
	}
	if slices.ContainsFunc(chaperons.Items, func(c v1alpha1.PodChaperon) bool {
		return s.ClusterID == "" || c.Labels[v1alpha1.LabelParentClusterID] == s.ClusterID
	}) {
		return used
	}
	answer := unused
	for _, some := range k.copies {
		switch some.use(namespace, s.Users) {
		case used:
			return used
		case unknown:
			answer = unknown
		case unused:
		}
	}
	return answer
}

// write makes the RoleBindings as planned, and says whether a write was needed. A namespace that cannot be written does
// not keep the others waiting. The plan learns of rights that stay although it takes them.
func (k *Keeper) write(ctx context.Context, s ClusterSource, p plan, has map[string][]rights) (bool, error) {
	changed, problems := make([]bool, len(p.live)), make([]error, len(p.live))
	wanted := make([]rights, len(p.live))
	group := errgroup.Group{}
	group.SetLimit(writesAtATime)
	for i, namespace := range p.live {
		group.Go(func() error {
			wanted[i], problems[i] = k.confirm(ctx, s, namespace, p.rights[namespace], has[namespace])
			if problems[i] == nil {
				changed[i], problems[i] = k.writeOne(ctx, s, namespace, wanted[i], has[namespace])
			}
			return nil
		})
	}
	err := group.Wait()
	for i, namespace := range p.live {
		p.rights[namespace] = wanted[i]
	}
	problems = slices.DeleteFunc(problems, func(err error) bool {
		// The namespace is being deleted, or gone. The cache learns of it soon.
		return err == nil || apierrors.IsNotFound(err) ||
			apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	})
	if more := len(problems) - problemsReported; more > 0 {
		problems = append(problems[:problemsReported], fmt.Errorf("and %d more problems", more))
	}
	return slices.Contains(changed, true), errors.Join(append(problems, err)...)
}

// writeOne creates before it deletes, so that the source is never without rights.
func (k *Keeper) writeOne(
	ctx context.Context, s ClusterSource, namespace string, want rights, has []rights,
) (changed bool, err error) {
	meta := func(r rights) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: prefixes()[r] + s.Name, OwnerReferences: []metav1.OwnerReference{s.Owner},
		}
	}
	role := k.options.FullClusterRoleName
	if want == leaving {
		role = k.options.LeavingClusterRoleName
	}
	if want != none {
		changed, err = k.objects.Ensure(ctx, BindingTo("ClusterRole", role, meta(want), s.Subjects))
		if err != nil {
			return changed, err
		}
	}
	for _, r := range has {
		if r == want {
			continue
		}
		if err := k.objects.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: meta(r)}); err != nil {
			return true, err
		}
		changed = true
	}
	return changed, nil
}

// Concerned returns the ClusterSources whose rights may depend on an object that is gone from a namespace. An empty
// namespace stands for all.
func (k *Keeper) Concerned(namespace string) []string { return k.open.sources(namespace) }

// Forget forgets a ClusterSource that was deleted.
func (k *Keeper) Forget(source string) { k.open.keep(source, nil) }

// OnAnswer has f called with the ClusterSources whose rights may change because copies are listed, or gone. Set it
// before the Keeper starts.
func (k *Keeper) OnAnswer(f func(sources []string)) { k.open.answered.Store(&f) }

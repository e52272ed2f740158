package engage

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Target is an engaged target cluster. Its fields do not change; a target whose credentials or address change is
// disengaged and engaged anew. It is safe for concurrent use.
type Target struct {
	// Key is the name of the ClusterTarget (with an empty namespace) or the Target.
	Key types.NamespacedName
	// NodeName is the name of its virtual node.
	NodeName string
	// Hash is the value of the label target-hash of its PodChaperons.
	Hash string
	// ClusterID is the target cluster's own; empty if the target does not tell it. Targets that lead to one cluster
	// have the same. A target that lies can have any: see Has.
	ClusterID string
	// Itself says that the target is the source cluster: its spec says so, or it was proved. What pods need is there
	// already.
	Itself bool
	// Gate decides which objects of the target are believed. Client, APIReader and Cache have passed it.
	Gate *gate.Gate
	// Account has the objects of the target that are kept in memory. Those in Cache and of Objects.NewInformer are on
	// it.
	Account *wire.Account
	// Config reaches the target's API server, without client-side rate limit and without time-out, for streams. Nothing
	// that is read with it has passed the gate.
	Config *rest.Config
	// Client reads PodChaperons (only those of this source cluster and this target) and the ClusterSummary from a
	// synced cache, without their managedFields; of PodChaperons what gate.ParentOf reads, and the status. Everything
	// else is not read through it. It writes to the API server.
	Client client.Client
	// APIReader reads from the API server. What the gate refuses is a *gate.ForgedError.
	APIReader client.Reader
	// Cache is the one that Client reads, for event handlers. PodChaperons are indexed by IndexParent.
	Cache cache.Cache
	// Copied is nil if this source may read its copies by one watch: in the whole cluster or, for a Target, in its
	// namespace. Otherwise it reads them namespace by namespace.
	Copied *Copied
	// Confirms asks the target, and returns nil if it was not set back, and no copy of this source acts there. Without
	// it, nobody knows.
	Confirms func(context.Context) error
	// FindsPod takes the place of HasPod's own question, unless it is nil.
	FindsPod func(context.Context, types.NamespacedName) (bool, error)
	// FindsNothing answers HasNothingIn. Without it, nobody knows.
	FindsNothing func(namespace string) bool
	// FindsNothingNow asks the target whether it says so now, and returns an error if not. Without it, what
	// FindsNothing answers is enough.
	FindsNothingNow func(ctx context.Context, namespace string) error

	lapsed  atomic.Bool
	lost    atomic.Bool
	fences  atomic.Bool
	changes atomic.Bool
	spares  atomic.Bool
	policy  atomic.Pointer[v1alpha1.PlacementPolicy]
}

// IndexParent is the field index, in Target.Cache, of PodChaperons by the namespaced name of their proxy
// (types.NamespacedName.String).
const IndexParent = "parent"

// Reachable says whether the source may act in the target, and the target is not lost. One that is out of reach stays
// so.
func (t *Target) Reachable() bool { return !t.lapsed.Load() }

// Lost says whether the target's API server has not answered for so long that its virtual node is not Ready, or does
// not accept the source any more. A target that is out of reach for a moment, and not lost, keeps the pods that it may
// have, bound or not. A target that is lost stays so.
func (t *Target) Lost() bool { return t.lost.Load() }

// Fences says whether the target can fence delegates of this source: the source holds its Lease there, and the target's
// manager fences, as was last seen.
func (t *Target) Fences() bool { return t.fences.Load() }

// SetFences notes whether the target can fence delegates.
func (t *Target) SetFences(fences bool) { t.fences.Store(fences) }

// Changes says whether the target's manager applies changes of PodChaperons to their delegates, as was last seen.
func (t *Target) Changes() bool { return t.changes.Load() }

// SetChanges notes whether the target's manager applies changes.
func (t *Target) SetChanges(changes bool) { t.changes.Store(changes) }

// Spares says whether the target's manager spares withdrawn delegates that have a node, as was last seen.
func (t *Target) Spares() bool { return t.spares.Load() }

// SetSpares notes whether the target's manager spares withdrawn delegates that have a node.
func (t *Target) SetSpares(spares bool) { t.spares.Store(spares) }

// Confirm returns nil if what the target said just before is of the present: it was not set back to an earlier state. A
// target that lacks a PodChaperon must be confirmed before anybody concludes that the PodChaperon was deleted.
func (t *Target) Confirm(ctx context.Context) error {
	if t.Confirms == nil {
		return nil
	}
	return t.Confirms(ctx)
}

// HasNothingIn says whether this source surely has no PodChaperons in a namespace that the target does not let it read.
// Confirm says whether the target says so of the present.
func (t *Target) HasNothingIn(namespace string) bool {
	return t.FindsNothing != nil && t.FindsNothing(namespace)
}

// ConfirmsNothingIn says whether this source surely has no PodChaperons in a namespace that the target does not let it
// read. If HasNothingIn says so, it asks the target whether it says so now, and of the present.
func (t *Target) ConfirmsNothingIn(ctx context.Context, namespace string) bool {
	if !t.HasNothingIn(namespace) {
		return false
	}
	return timeouts.Within(ctx, func(ctx context.Context) error {
		if t.FindsNothingNow != nil {
			if err := t.FindsNothingNow(ctx, namespace); err != nil {
				return err
			}
		}
		return t.Confirm(ctx)
	}) == nil
}

// Policy says how pods are placed in the target, as its spec says now. It is not to be changed.
func (t *Target) Policy() *v1alpha1.PlacementPolicy {
	if policy := t.policy.Load(); policy != nil {
		return policy
	}
	return &v1alpha1.PlacementPolicy{}
}

// Allows says whether pods of a namespace may go to the target: a ClusterTarget takes those of every namespace, a
// Target those of its own.
func (t *Target) Allows(namespace string) bool {
	return t.Key.Namespace == "" || t.Key.Namespace == namespace
}

// Made says whether the labels of an object in the target say that it was made for this target. The short label of
// earlier versions counts for objects of their time only. Labels tell siblings apart, and prove nothing.
func (t *Target) Made(object metav1.Object) bool {
	return proof.IsOurs(object, translate.TargetID(t.Key), t.Gate.Verifier.CreatedAt())
}

// Has asks the target's API server whether it has this very object, of another target. If so, both lead to the same
// cluster: no other cluster knows the UID. A target that does not answer does not have it.
func (t *Target) Has(ctx context.Context, object client.Object) bool {
	kind, err := apiutil.GVKForObject(object, t.Client.Scheme())
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err = t.APIReader.Get(ctx, client.ObjectKeyFromObject(object), found)
	return err == nil && found.UID != "" && found.UID == object.GetUID()
}

package gate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Verifier verifies the proofs that this source made PodChaperons. It is safe for concurrent use, and fast.
type Verifier interface {
	// Verify says whether we have signed the claim so.
	Verify(claim proof.Claim, proof string) bool
	// CreatedAt is the time since which every PodChaperon that we make has a valid proof.
	CreatedAt() time.Time
}

// Gate decides which objects of one target enter the source. It is safe for concurrent use. All fields are required,
// and must not change.
type Gate struct {
	// Key is the target's.
	Key types.NamespacedName
	// NodeName is the name of the target's virtual node.
	NodeName string
	// Allows says whether the target may have objects of a namespace.
	Allows func(namespace string) bool
	// Verifier verifies the proofs of PodChaperons.
	Verifier Verifier
	// Proxies reads pods of the source, from a cache. They need the fields that package podcache keeps of proxies.
	Proxies client.Reader
}

// ForgedError says why an object of a target does not pass the gate.
type ForgedError struct {
	// Target is the key of the target.
	Target types.NamespacedName
	// Kind, Namespace and Name are those of the object.
	Kind, Namespace, Name string
	// Reason says what is wrong with it, for users to read.
	Reason string
}

// Error names the object.
func (e *ForgedError) Error() string {
	return fmt.Sprintf("the %s %q of target %q is not accepted: %s",
		e.Kind, types.NamespacedName{Namespace: e.Namespace, Name: e.Name}, e.Target, e.Reason)
}

func (g *Gate) forged(o client.Object, format string, values ...any) error {
	return &ForgedError{
		Target: g.Key, Kind: kindOf(o), Namespace: o.GetNamespace(), Name: short(o.GetName()),
		Reason: fmt.Sprintf(format, values...),
	}
}

// Accept returns nil if an object of the target may be believed to be ours, and a *ForgedError otherwise. It refuses
// orphans.
func (g *Gate) Accept(ctx context.Context, o client.Object) error {
	orphan, err := g.decide(ctx, o)
	if err == nil && orphan {
		return g.forged(
			o,
			"it has no valid proof, and its pod is not bound to %s; if it is not needed, delete it there",
			g.NodeName,
		)
	}
	return err
}

// decide returns a *ForgedError unless the object may pass into caches. The result orphan says that it is a PodChaperon
// that holds no pod.
func (g *Gate) decide(ctx context.Context, o client.Object) (orphan bool, err error) {
	defer func() {
		if cause := recover(); cause != nil { // Nothing that a target sends may end the process.
			orphan, err = false, g.forged(o, "it cannot be checked: %v", cause)
		}
	}()
	if err := g.checkNamespace(o); err != nil {
		return false, err
	}
	if err := g.checkUIDs(o); err != nil {
		return false, err
	}
	switch kindOf(o) {
	case kindPodChaperon:
		return g.decideChaperon(ctx, o)
	case kindSummary:
		return false, g.checkSummary(o)
	default:
		return false, nil
	}
}

// longestUID is more than the length of the UIDs that API servers make, which is 36. Code behind the gate keeps UIDs.
const longestUID = 64

// checkUIDs checks the UIDs of the object and, if it is a PodChaperon, of its proxy.
func (g *Gate) checkUIDs(o client.Object) error {
	if len(o.GetUID()) > longestUID || len(ParentOf(o).UID) > longestUID {
		return g.forged(o, "its UID, or that of its pod, has more than %d characters", longestUID)
	}
	return nil
}

func (g *Gate) checkNamespace(o client.Object) error {
	switch namespace := o.GetNamespace(); {
	case namespace == "" && !clusterWide(o):
		return g.forged(o, "it has no namespace")
	case namespace != "" && !g.Allows(namespace):
		return g.forged(o, "the target may not have objects of its namespace")
	default:
		return nil
	}
}

func (g *Gate) decideChaperon(ctx context.Context, o client.Object) (orphan bool, err error) {
	parent := ParentOf(o)
	switch {
	case parent.Key.Name == "" || parent.UID == "":
		return false, g.forged(o, "the label %s, or an annotation that names its pod, is missing",
			v1alpha1.LabelParentUID)
	case parent.Key.Namespace != o.GetNamespace():
		return false, g.forged(o, "its pod is in another namespace")
	case o.GetName() != translate.DelegateNameOf(parent.Key.Name, parent.UID):
		return false, g.forged(o, "its name is not the one that belongs to its pod")
	case g.Verifier.Verify(
		proof.Claim{UID: parent.UID, Proxy: parent.Key, Target: g.Key}, o.GetAnnotations()[v1alpha1.AnnotationProof],
	):
		return false, nil
	default:
		return g.decideUnproven(ctx, o, parent)
	}
}

// decideUnproven decides by what the source itself knows of the proxy.
func (g *Gate) decideUnproven(ctx context.Context, o client.Object, parent Parent) (orphan bool, err error) {
	proxy := &corev1.Pod{}
	err = g.Proxies.Get(ctx, parent.Key, proxy, client.UnsafeDisableDeepCopy)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, g.forged(o, "it has no valid proof, and its pod cannot be looked up: %v", err)
	case err != nil || proxy.UID != parent.UID:
		return true, nil //nolint:nilerr // The pod is not found: nobody's PodChaperon is an answer.
	case proxy.Spec.SchedulerName != v1alpha1.SchedulerName:
		return false, g.forged(o, "its pod is no proxy")
	case proxy.Spec.NodeName == g.NodeName:
		return false, nil
	case proxy.Spec.NodeName != "":
		return true, nil
	case proxy.CreationTimestamp.Time.Before(g.Verifier.CreatedAt()):
		return false, nil
	default:
		return false, g.forged(o, "it has no valid proof, and its pod is not bound to %s", g.NodeName)
	}
}

// checkSummary checks a ClusterSummary as a whole. Of its metadata alone, nothing is believed.
func (g *Gate) checkSummary(o client.Object) error {
	summary, ok := o.(*v1alpha1.ClusterSummary)
	if !ok {
		return g.forged(o, "only whole ClusterSummaries can be checked")
	}
	if err := CheckSummary(summary); err != nil {
		return g.forged(o, "%v", err)
	}
	return nil
}

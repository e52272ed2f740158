package node

import (
	"context"
	"fmt"
	"time"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/log/klogv2"
	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

const (
	leaseSeconds = 40 // as for kubelets; renewed every quarter of this
	// heartbeat is the interval at which an unchanged status is written, as by kubelets.
	heartbeat = 5 * time.Minute
	// handOverAgainAfter is how long the node controller has to apply a node before it is handed the node again.
	handOverAgainAfter = 10 * time.Second
)

// runner runs one node controller of virtual-kubelet, and is its provider.
type runner struct {
	stop context.CancelFunc
	done chan struct{} // closed when it has ended

	handed chan *corev1.Node // at most one node, which the node controller has not taken yet
	// lastHanded is the node that was handed over last. Only one goroutine at a time uses it and the fields below.
	lastHanded   *corev1.Node
	lastHandedAt time.Time
	// seen says whether our cache has shown the node.
	seen bool
}

var _ vknode.NodeProvider = &runner{}

// startRunner starts a node controller, which creates the node or takes over an existing one. It runs until ctx ends,
// it is stopped, or it fails. Then ended is called.
func startRunner(
	ctx context.Context,
	clients kubernetes.Interface,
	node *corev1.Node,
	now time.Time,
	ended func(error),
) (*runner, error) {
	ctx, stop := context.WithCancel(vklog.WithLogger(ctx, klogv2.New(vklog.Fields{"node": node.Name})))
	r := &runner{
		stop:         stop,
		done:         make(chan struct{}),
		handed:       make(chan *corev1.Node, 1),
		lastHanded:   node,
		lastHandedAt: now,
	}
	leases := clients.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	c, err := vknode.NewNodeController(r, node.DeepCopy(), clients.CoreV1().Nodes(),
		vknode.WithNodeEnableLeaseV1(leases, leaseSeconds),
		vknode.WithNodeStatusUpdateInterval(heartbeat),
		vknode.WithNodeStatusUpdateErrorHandler(r.failed))
	if err != nil {
		stop()
		return nil, fmt.Errorf("making a node controller: %w", err)
	}
	go func() {
		err := c.Run(ctx)
		stop()
		close(r.done)
		ended(err)
	}()
	return r, nil
}

// Ping never fails, because the lease shows that this manager lives, not that the target does.
func (r *runner) Ping(context.Context) error { return nil }

// NotifyNodeStatus passes the nodes that are handed over to the node controller.
func (r *runner) NotifyNodeStatus(ctx context.Context, take func(*corev1.Node)) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case node := <-r.handed:
				take(node)
			}
		}
	}()
}

// handOver hands the desired node to the node controller if it is new, or if the existing node does not conform to it
// for a while. It returns when to call it again, 0 for never.
func (r *runner) handOver(node *corev1.Node, conforms bool, now time.Time) time.Duration {
	unchanged := equalExceptTimes(r.lastHanded, node)
	if unchanged && conforms {
		return 0
	}
	if since := now.Sub(r.lastHandedAt); unchanged && since < handOverAgainAfter {
		return handOverAgainAfter - since
	}
	r.lastHanded, r.lastHandedAt = node, now
	select {
	case <-r.handed:
	default:
	}
	r.handed <- node.DeepCopy() // The node controller changes the node that it gets.
	return handOverAgainAfter
}

// lost says whether somebody deleted the node. The node controller notices this with its next write, in five minutes or
// when it is handed a node.
func (r *runner) lost(existing *corev1.Node) bool {
	r.seen = r.seen || existing != nil
	return r.seen && existing == nil
}

// failed stops the node controller if its node was deleted. The next one creates the node again.
func (r *runner) failed(_ context.Context, err error) error {
	if apierrors.IsNotFound(err) {
		r.stop()
	}
	return err
}

func (r *runner) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

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
	leaseSeconds = 40 // as kubelets have it; renewed four times as often
	// heartbeat is how often the status is written when nothing changes, as kubelets do.
	heartbeat = 5 * time.Minute
	// handOverAgainAfter is how long the node controller has for what it was handed before it is handed it once more.
	handOverAgainAfter = 10 * time.Second
)

// runner runs one virtual-kubelet node controller, and is its provider.
type runner struct {
	stop context.CancelFunc
	done chan struct{} // closed when it has ended

	handed chan *corev1.Node // what the node controller has not taken yet, at most one
	// lastHanded and at are what was handed over last, and when. They are for one goroutine at a time.
	lastHanded   *corev1.Node
	lastHandedAt time.Time
}

var _ vknode.NodeProvider = &runner{}

// startRunner runs a node controller until ctx ends, it is stopped, or it fails; ended is called then. It creates the node,
// or takes over what is there.
func startRunner(
	ctx context.Context,
	clients kubernetes.Interface,
	node *corev1.Node,
	now time.Time,
	ended func(error),
) (*runner, error) {
	ctx, stop := context.WithCancel(vklog.WithLogger(ctx, klogv2.New(vklog.Fields{"node": node.Name})))
	r := &runner{stop: stop, done: make(chan struct{}), handed: make(chan *corev1.Node, 1), lastHanded: node, lastHandedAt: now}
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

// Ping says that the node lives: the lease tells of us, not of the target.
func (r *runner) Ping(context.Context) error { return nil }

// NotifyNodeStatus passes on what is handed over.
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

// handOver gives the node controller what shall be, if that is new, or if the node does not conform to it for a while. It
// tells when to look again, if need be.
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
	r.handed <- node.DeepCopy() // The node controller writes into what it gets.
	return handOverAgainAfter
}

// failed ends the node controller whose node was deleted; another will create it.
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

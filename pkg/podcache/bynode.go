package podcache

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// IndexNode is the field index, in the manager's cache, of proxies by the node that they are bound to.
const IndexNode = "spec.nodeName"

// ByNode lists proxies by the node that they are bound to. A cache takes an index of a name once, so all parts of a
// manager share its ByNode.
type ByNode struct {
	reader  client.Reader
	indexer client.FieldIndexer

	mu      sync.Mutex // guards indexed
	indexed bool
}

// NewByNode returns the ByNode of a cache, which reader reads and indexer indexes. Without indexer, the cache has the
// index already. The first list creates the index: a replica that does not lead lists nothing, so it does not watch
// pods.
func NewByNode(reader client.Reader, indexer client.FieldIndexer) *ByNode {
	return &ByNode{reader: reader, indexer: indexer, indexed: indexer == nil}
}

// List lists the proxies on a node. They belong to the cache, so nobody may change them.
func (b *ByNode) List(ctx context.Context, node string) (*corev1.PodList, error) {
	if err := b.index(ctx); err != nil {
		return nil, fmt.Errorf("indexing proxies by node: %w", err)
	}
	proxies := &corev1.PodList{}
	err := b.reader.List(ctx, proxies, client.MatchingFields{IndexNode: node}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing proxies on node %q: %w", node, err)
	}
	return proxies, nil
}

// index creates the index, until this succeeds once. It does not wait for the cache.
func (b *ByNode) index(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.indexed {
		return nil
	}
	err := b.indexer.IndexField(ctx, &corev1.Pod{}, IndexNode, NodeOfProxy)
	b.indexed = err == nil
	return err
}

// NodeOfProxy returns what the index IndexNode has of an object: the node of a proxy that is bound.
func NodeOfProxy(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" && translate.IsProxy(pod) {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

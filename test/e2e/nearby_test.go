//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// many is how often a client asks: two servers that kube-proxy chooses at random have both answered then.
const many = 16

// Each cluster has a client and a server of one Service. The server in c1 is no elected pod. kube-proxy prefers the
// near server only if each endpoint has hints, those of other clusters, too.
func TestTrafficStaysNearWhileThereIsANearPod(t *testing.T) {
	w := setUp(t)
	for _, c := range w.all() {
		w.inZone(t, c, "zone-of-"+c.name)
	}
	w.service(t, "web")
	near := podTemplate("web")
	near.Annotations = nil
	create(t, w.c1, w.pod("in-c1", near))
	create(t, w.c1, w.pod("in-c2", inTarget("c2", podTemplate("web"))))
	clients := map[*cluster]string{}
	for _, c := range w.all() {
		name := "client-in-" + c.name
		create(t, w.c1, w.pod(name, inTarget(c.name, podTemplate("client", "sleep", "infinity"))))
		_, delegate := w.delegateOf(t, w.reaches(t, name, corev1.PodRunning))
		clients[c] = delegate.Name
	}
	w.reaches(t, "in-c2", corev1.PodRunning)

	all := []string{"in-c1", "in-c2"}
	for _, c := range w.all() {
		w.hasEndpoints(t, c, "web", 2)
		w.hears(t, c, clients[c], all)
	}
	for _, distribution := range []string{
		corev1.ServiceTrafficDistributionPreferSameNode, corev1.ServiceTrafficDistributionPreferSameZone,
	} {
		t.Run(distribution, func(t *testing.T) {
			w.distribute(t, distribution)
			for _, c := range w.all() {
				w.hears(t, c, clients[c], []string{"in-" + c.name})
				w.hasEndpoints(t, c, "web", 2)
			}
			w.distribute(t, "")
			for _, c := range w.all() {
				w.hears(t, c, clients[c], all)
			}
		})
	}

	w.distribute(t, corev1.ServiceTrafficDistributionPreferSameNode)
	w.hears(t, w.c2, clients[w.c2], []string{"in-c2"})
	w.kubectl(t, "delete", "pod", "in-c2")
	w.hears(t, w.c2, clients[w.c2], []string{"in-c1"})
}

// hears waits until just these servers answer a client many times, by the name of the Service.
func (w *world) hears(t *testing.T, c *cluster, pod string, servers []string) {
	t.Helper()
	w.serviceIn(t, c, "web")
	eventually(t, fmt.Sprintf("the client in %s to hear %v", c.name, servers), func(ctx context.Context) error {
		heard, err := w.answerers(ctx, c, pod, "http://web/", many)
		if err == nil && !slices.Equal(heard, servers) {
			err = fmt.Errorf("it hears %v", heard)
		}
		return err
	})
}

// distribute sets the traffic distribution of the Service.
func (w *world) distribute(t *testing.T, value string) {
	t.Helper()
	field := "null"
	if value != "" {
		field = `"` + value + `"`
	}
	w.kubectl(t, "patch", "service", "web", "--type=merge", "-p", `{"spec":{"trafficDistribution":`+field+`}}`)
}

// inZone puts the node of a cluster into a zone until the test ends.
func (w *world) inZone(t *testing.T, c *cluster, zone string) {
	t.Helper()
	set := func(ctx context.Context, value string) {
		node := &corev1.Node{}
		node.Name = c.name + "-node"
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, corev1.LabelTopologyZone, value)
		if err := c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatalf("labelling the node of %s: %v", c.name, err)
		}
	}
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), "null") })
	set(t.Context(), `"`+zone+`"`)
}

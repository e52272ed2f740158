//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

const podImage = "localhost/whoami:dev"

// TestLife starts clusters in two checkouts, tests everything that can happen to them, and removes them.
func TestLife(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("clusters need root: run this as root")
	}
	one, two := newCheckout(t), newCheckout(t)
	upTogether(one, two)
	one.findSlot()
	two.findSlot()
	if one.slot == two.slot {
		t.Fatalf("both checkouts have slot %s", one.slot)
	}

	one.kubectl("c1", "run", "a", "--image", podImage, "--expose", "--port", "8080")
	one.kubectl("c2", "run", "b", "--image", podImage)
	one.kubectl("c1", "wait", "--for=condition=Ready", "pod/a", "--timeout=1m")
	one.kubectl("c2", "wait", "--for=condition=Ready", "pod/b", "--timeout=1m")

	t.Run("a service reaches its pod", func(t *testing.T) { testService(t, one.in(t)) })
	t.Run("names lead to Services and to their pods", func(t *testing.T) { testNames(t, one.in(t)) })
	t.Run("kubectl exec and logs work", func(t *testing.T) { testExecAndLogs(t, one.in(t)) })
	t.Run("a link is limited until it is healed", func(t *testing.T) { testLimit(t, one.in(t)) })
	t.Run("pods of all clusters reach one another, unless cut off", func(t *testing.T) { testPartition(t, one.in(t)) })
	t.Run("pods are cut off from their API server", func(t *testing.T) { testIsolation(t, one.in(t)) })
	t.Run("an API server stops and starts", func(t *testing.T) { testAPIServer(t, one.in(t)) })
	t.Run("up repairs what was killed, and pods live on", func(t *testing.T) { testRepair(t, one.in(t)) })
	t.Run("simulated nodes come and go", func(t *testing.T) { testFakeNodes(t, one.in(t)) })
	t.Run("clusters of a vanished checkout are removed", func(t *testing.T) { testVanished(t, one.in(t), two.in(t)) })
	t.Run("down leaves nothing", func(t *testing.T) { testDown(t, one.in(t)) })
}

// upTogether starts the clusters of two checkouts at the same time. Two commands start those of the first.
func upTogether(one, two *checkout) {
	var starting sync.WaitGroup
	starting.Go(func() { one.clusters("up", "c1", "c2") })
	starting.Go(func() { one.clusters("up", "c2") })
	starting.Go(func() { two.clusters("up", "c1") })
	starting.Wait()
}

func testService(t *testing.T, c *checkout) {
	t.Helper()
	address := c.kubectl("c1", "get", "service", "a", "-o", "jsonpath={.spec.clusterIP}")
	c.eventually(func() error { return c.ask("c1", "a", address, "a") })
}

func testNames(t *testing.T, c *checkout) {
	t.Helper()
	c.kubectl("c1", "create", "service", "clusterip", "set", "--clusterip=None")
	c.kubectl("c1", "run", "first", "--image", podImage, "--labels", "app=set",
		"--overrides", `{"spec":{"hostname":"one","subdomain":"set"}}`)
	for name, answer := range map[string]string{
		"a": "a", "a.default.svc.cluster.local": "a", "set": "one", "one.set.default.svc.cluster.local": "one",
	} {
		c.eventually(func() error { return c.ask("c1", "a", name, answer) })
	}
	c.kubectl("c1", "delete", "pod/first", "service/set", "--now")
}

func testExecAndLogs(t *testing.T, c *checkout) {
	t.Helper()
	if got := c.kubectl("c1", "exec", "a", "--", "/whoami", "echo", "hello"); got != "hello" {
		t.Errorf("exec printed %q", got)
	}
	if got := c.kubectl("c1", "logs", "a"); !strings.Contains(got, "a serves on") {
		t.Errorf("logs printed %q", got)
	}
}

func testPartition(t *testing.T, c *checkout) {
	t.Helper()
	address := c.kubectl("c2", "get", "pod", "b", "-o", "jsonpath={.status.podIP}")
	if err := c.ask("c1", "a", address, "b"); err != nil {
		t.Fatal(err)
	}
	c.clusters("partition", "c2")
	if err := c.ask("c1", "a", address, "b"); err == nil {
		t.Error("a pod of a cluster that is cut off answered")
	}
	c.kubectl("c2", "get", "nodes")
	c.clusters("partition", "c2", "--from-machine")
	if _, err := c.tryKubectl("c2", "get", "nodes"); err == nil {
		t.Error("an API server that is cut off from the machine answered")
	}
	c.clusters("heal", "c2")
	if err := c.ask("c1", "a", address, "b"); err != nil {
		t.Error(err)
	}
}

func testIsolation(t *testing.T, c *checkout) {
	t.Helper()
	address := c.kubectl("c1", "get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
	asks := func() string { // The API server refuses a request without TLS.
		said, _ := c.tryKubectl("c1", "exec", "a", "--", "/whoami", "get", "--timeout", "2s", "http://"+address+":443/")
		return said
	}
	const answer = "HTTPS server"
	if said := asks(); !strings.Contains(said, answer) {
		t.Fatalf("the API server said %q", said)
	}
	c.clusters("isolate", "c1", c.kubectl("c1", "get", "pod", "a", "-o", "jsonpath={.status.podIP}"))
	if said := asks(); strings.Contains(said, answer) {
		t.Errorf("the API server says %q to a pod that is cut off from it", said)
	}
	if status := c.clusters("status"); strings.Count(status, "pods isolated") != 1 {
		t.Errorf("not only c1 has isolated pods:\n%s", status)
	}
	c.clusters("heal", "c1")
	if said := asks(); !strings.Contains(said, answer) {
		t.Errorf("after the isolation, the API server said %q", said)
	}
}

func testLimit(t *testing.T, c *checkout) {
	t.Helper()
	c.clusters("limit", "c2", "--mbit", "100")
	c.clusters("limit", "c2", "--mbit", "10")
	c.kubectl("c2", "get", "nodes")
	if status := c.clusters("status"); strings.Count(status, "limited") != 1 {
		t.Errorf("not only c2 is limited:\n%s", status)
	}
	c.clusters("heal", "c2")
	if status := c.clusters("status"); strings.Contains(status, "limited") {
		t.Errorf("limited after it was healed:\n%s", status)
	}
}

func testAPIServer(t *testing.T, c *checkout) {
	t.Helper()
	c.clusters("stop-apiserver", "c2")
	if _, err := c.tryKubectl("c2", "get", "nodes"); err == nil {
		t.Error("an API server that was stopped answered")
	}
	c.clusters("start-apiserver", "c2")
	c.kubectl("c2", "get", "nodes")
}

func testRepair(t *testing.T, c *checkout) {
	t.Helper()
	c.kill("c1", "etcd")
	c.kill("c1", "containerd")
	c.kill("c2", "kubelet")
	c.clusters("up", "c1", "c2")
	c.kubectl("c1", "run", "later", "--image", podImage)
	c.kubectl("c1", "wait", "--for=condition=Ready", "pod/later", "--timeout=1m")
	got := c.kubectl("c1", "get", "pod", "a", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	if got != "0" {
		t.Errorf("the pod was restarted %s times", got)
	}
}

func testFakeNodes(t *testing.T, c *checkout) {
	t.Helper()
	for _, count := range []string{"3", "1", "0"} {
		c.clusters("up", "c2", "--fake-nodes", count)
		nodes := c.kubectl("c2", "get", "nodes", "-l", "type=kwok", "-o", "jsonpath={.items[*].metadata.name}")
		if got := fmt.Sprint(len(strings.Fields(nodes))); got != count {
			t.Errorf("%s simulated nodes, want %s", got, count)
		}
	}
}

func testVanished(t *testing.T, survivor, vanished *checkout) {
	t.Helper()
	if len(vanished.leftovers()) == 0 {
		t.Fatal("the test finds nothing of a checkout with clusters, so it cannot notice what is left")
	}
	// The processes of the checkout still write into its folder, so the test moves the folder instead of removing it.
	if err := os.Rename(vanished.dir, vanished.dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	survivor.clusters("up", "c1")
	if left := vanished.leftovers(); len(left) > 0 {
		t.Errorf("left:\n%s", strings.Join(left, "\n"))
	}
}

func testDown(t *testing.T, c *checkout) {
	t.Helper()
	c.clusters("down")
	if left := c.leftovers(); len(left) > 0 {
		t.Errorf("left:\n%s", strings.Join(left, "\n"))
	}
	for _, path := range []string{"kubeconfig", "clusters"} {
		if _, err := os.Stat(c.dir + "/.local/" + path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf(".local/%s is still there (%v)", path, err)
		}
	}
	c.clusters("down")
}

// ask has a pod ask the server at an address, port 8080, for its name.
func (c *checkout) ask(cluster, pod, address, want string) error {
	url := "http://" + address + ":8080/"
	got, err := c.tryKubectl(cluster, "exec", pod, "--", "/whoami", "get", "--timeout", "2s", url)
	if err != nil || got != want {
		return fmt.Errorf("%s answered %q (%w), want %q", address, got, err, want)
	}
	return nil
}

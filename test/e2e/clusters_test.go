//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// patience is the time after which a test stops waiting for a condition.
const patience = 5 * time.Minute

// cluster is one of the clusters that `make clusters-up` started.
type cluster struct {
	client.WithWatch
	name   string
	config *rest.Config
}

func localFile(name string) string {
	path, err := filepath.Abs(filepath.Join("..", "..", ".local", name))
	if err != nil {
		panic(err)
	}
	return path
}

// open connects to a cluster by its context's name.
func open(t *testing.T, name string) *cluster {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: localFile("kubeconfig")},
		&clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if err != nil {
		t.Fatalf("no cluster %s (run make clusters-up deploy): %v", name, err)
	}
	config.QPS = -1
	log.SetLogger(logr.Discard()) // else controller-runtime complains
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("connecting to %s: %v", name, err)
	}
	return &cluster{WithWatch: c, name: name, config: config}
}

// world consists of the clusters and a namespace of the same name in each.
type world struct {
	c1, c2    *cluster
	namespace string
}

// setUp opens the clusters and makes an enabled namespace in each. The namespaces are deleted when the test ends.
func setUp(t *testing.T) *world {
	t.Helper()
	w := &world{c1: open(t, "c1"), c2: open(t, "c2")}
	w.namespace = "e2e-" + rand.String(6)
	t.Logf("namespace %s", w.namespace)
	for _, c := range w.all() {
		t.Cleanup(func() { w.empty(t, c) }) // after the namespace's deletion
		create(t, c, w.namespaceIn(c))
	}
	w.awaitAccount(t, w.c1)
	w.awaitAccount(t, w.c2)
	w.awaitRights(t, w.c2)
	w.awaitAdmission(t)
	w.awaitAnswers(t)
	t.Cleanup(func() {
		if t.Failed() {
			w.dump(t)
		}
	})
	return w
}

func (w *world) all() []*cluster { return []*cluster{w.c1, w.c2} }

// namespaceIn returns the test's namespace, as it is to be created in a cluster.
func (w *world) namespaceIn(c *cluster) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if c == w.c1 {
		ns.Labels = map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}
	}
	return ns
}

// awaitAccount waits until pods may be created in the new namespace. A controller manager makes the account that they
// need. It may have to lead again first, after a test in which its API server was away.
func (w *world) awaitAccount(t *testing.T, c *cluster) {
	t.Helper()
	eventually(t, "the default ServiceAccount in "+c.name, func(ctx context.Context) error {
		return c.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// awaitAdmission waits until pods of the new namespace become proxies. After a test that installed the chart anew,
// kube-proxy refuses connections to the webhook for a moment, although the managers are ready.
func (w *world) awaitAdmission(t *testing.T) {
	t.Helper()
	eventually(t, "c1 to admit elected pods", func(ctx context.Context) error {
		return w.c1.admits(ctx, w.pod("admitted", podTemplate("admitted")))
	})
}

// awaitAnswers waits until no target is known to answer badly. A target gets no pods until it has answered well for a
// while, after a test that kept the machine busy.
func (w *world) awaitAnswers(t *testing.T) {
	t.Helper()
	eventually(t, "targets to answer well", func(ctx context.Context) error {
		targets := &v1alpha1.ClusterTargetList{}
		if err := w.c1.List(ctx, targets); err != nil {
			return err
		}
		for i := range targets.Items {
			responsive := meta.FindStatusCondition(targets.Items[i].Status.Conditions, v1alpha1.ConditionResponsive)
			if responsive != nil && responsive.Status == metav1.ConditionFalse {
				return fmt.Errorf("%s: %s", targets.Items[i].Name, responsive.Message)
			}
		}
		return nil
	})
}

// awaitRights waits until c1, as a source, may create PodChaperons in the new namespace of a target. The target's
// manager binds the rights within moments. Pods that are created before go to another cluster.
func (w *world) awaitRights(t *testing.T, target *cluster) {
	t.Helper()
	eventually(t, "c1 to have rights in the namespace of "+target.name, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:admiralty:multicluster-source-c1",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: w.namespace, Verb: "create", Group: v1alpha1.GroupName, Resource: "podchaperons",
			},
		}}
		if err := target.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return errors.New("it may not create PodChaperons")
		}
		return nil
	})
}

// empty waits until no pod of the namespace is left in the cluster, so that the next test finds the same room.
func (w *world) empty(t *testing.T, c *cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if !t.Failed() {
		defer func() {
			if t.Failed() {
				w.dump(t)
			}
		}()
	}
	eventuallyIn(ctx, t, "the pods of "+c.name+" to be gone", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d are left", len(pods.Items))
		}
		return nil
	})
}

// dump prints the objects that a person would look at first.
func (w *world) dump(t *testing.T) {
	t.Helper()
	for _, c := range w.all() {
		for _, args := range [][]string{
			{"get", "nodes,ctg,mcsum", "-o", "wide"},
			{"get", "pods,chap,deploy,job", "-o", "wide", "-n", w.namespace},
			{"get", "events", "-n", w.namespace},
			{"get", "pods", "-o", "wide", "-n", "admiralty"},
			{"logs", "-n", "admiralty", "-l", "app.kubernetes.io/name=multicluster-scheduler", "--tail=30"},
		} {
			out, err := runKubectl(
				context.WithoutCancel(t.Context()),
				append([]string{"--context", c.name}, args...)...)
			t.Logf("$ kubectl --context %s %s\n%s%v", c.name, strings.Join(args, " "), out, err)
		}
	}
}

// create makes an object and deletes it when the test ends.
func create(t *testing.T, c *cluster, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s in %s: %v", object, object.GetName(), c.name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := c.Delete(
			ctx,
			object,
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		); client.IgnoreNotFound(
			err,
		) != nil {
			t.Errorf("deleting %T %s in %s: %v", object, object.GetName(), c.name, err)
		}
	})
}

// eventually waits until check returns nil. If time is up, the test fails with the last error of check.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eventuallyIn(ctx, t, what, check)
}

func eventuallyIn(ctx context.Context, t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil { // At the end of ctx, requests only say that it has ended.
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, last)
		case <-ticker.C:
		}
	}
}

// gone waits until an object does not exist.
func gone(t *testing.T, c *cluster, object client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s to be gone from %s", object, object.GetName(), c.name),
		func(ctx context.Context) error { return goneIn(ctx, c, object) })
}

func goneIn(ctx context.Context, c *cluster, object client.Object) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
	if err == nil {
		return fmt.Errorf("it is still there")
	}
	return client.IgnoreNotFound(err)
}

// kubectl runs kubectl in c1 as a user does and returns its output, errors included.
func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runKubectl(t.Context(), append([]string{"--context", "c1", "--namespace", w.namespace}, args...)...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func runKubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "kubectl", append([]string{"--kubeconfig", localFile("kubeconfig")}, args...)...)
}

func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, localFile(filepath.Join("bin", program)), args...)
	cmd.Dir = localFile("..")
	cmd.Env = append(
		os.Environ(),
		"KUBECONFIG="+localFile("kubeconfig"),
		"PATH="+localFile("bin")+":"+os.Getenv("PATH"),
	)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	return out.String(), err
}

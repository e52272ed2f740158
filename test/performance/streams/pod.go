package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	namespace = "performance-streams"
	podName   = "streams"
	program   = "/whoami"
	// The containers of the pod: they serve a port, repeat their input, and have a log.
	server, repeater, printer = "server", "repeater", "printer"
	serverPort                = 8080
	// logSize is the size in bytes of the log. Kubelets begin another file after 10 MiB.
	logSize = 5_000_000
)

// way is a way to the containers: to a pod, by the API server of its cluster.
type way struct {
	name   string
	config *rest.Config
	set    *kubernetes.Clientset
	pod    string
}

// side has the ways to one delegate.
type side struct{ virtual, direct *way }

// setUp creates the pod in c1, and waits until it runs in c2.
func setUp(ctx context.Context, kubeconfig string) (*side, error) {
	s := &side{}
	var err error
	if s.virtual, err = open(kubeconfig, "c1", "by the virtual node"); err != nil {
		return s, err
	}
	if s.direct, err = open(kubeconfig, "c2", "directly"); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := s.close(ctx); err != nil { // An earlier run may have been killed.
		return s, err
	}
	for _, way := range []*way{s.virtual, s.direct} {
		if err := way.createNamespace(ctx); err != nil {
			return s, err
		}
	}
	return s, s.createPod(ctx)
}

func open(kubeconfig, context, name string) (*way, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("opening cluster %s (make bench-clusters starts it): %w", context, err)
	}
	config.QPS = -1
	set, err := kubernetes.NewForConfig(config)
	return &way{name: name, config: config, set: set}, err
}

func (w *way) createNamespace(ctx context.Context) error {
	_, err := w.set.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	}}, metav1.CreateOptions{})
	return err
}

func newPod() *corev1.Pod {
	container := func(name string, args ...string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "localhost/whoami:dev", ImagePullPolicy: corev1.PullNever, Args: args,
		}
	}
	repeats := container(repeater, "cat")
	repeats.Stdin = true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName, Annotations: map[string]string{
			v1alpha1.AnnotationElect:            "",
			v1alpha1.AnnotationProxyConstraints: "nodeSelector: {multicluster.admiralty.io/cluster-target-name: c2}",
		}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				container(server), repeats, container(printer, "lines", fmt.Sprint(logSize)),
			},
			TerminationGracePeriodSeconds: new(int64(1)),
		},
	}
}

// createPod creates the pod, and finds its delegate when both run.
func (s *side) createPod(ctx context.Context) error {
	if _, err := s.virtual.pods().Create(ctx, newPod(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the pod: %w", err)
	}
	return eventually(ctx, "the pod runs", func(ctx context.Context) (bool, error) {
		proxy, err := s.virtual.pods().Get(ctx, podName, metav1.GetOptions{})
		if err != nil || proxy.Status.Phase != corev1.PodRunning {
			return false, err
		}
		delegates, err := s.direct.pods().List(ctx, metav1.ListOptions{
			LabelSelector: v1alpha1.LabelParentUID + "=" + string(proxy.UID),
		})
		if err != nil || len(delegates.Items) != 1 {
			return false, err
		}
		s.virtual.pod, s.direct.pod = proxy.Name, delegates.Items[0].Name
		return true, nil
	})
}

func (w *way) pods() typedcorev1.PodInterface { return w.set.CoreV1().Pods(namespace) }

// close deletes the namespaces, the source's first.
func (s *side) close(ctx context.Context) error {
	var errs []error
	for _, way := range []*way{s.virtual, s.direct} {
		if way != nil {
			errs = append(errs, way.deleteNamespace(ctx))
		}
	}
	return errors.Join(errs...)
}

func (w *way) deleteNamespace(ctx context.Context) error {
	namespaces := w.set.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting namespace %s: %w", namespace, err)
	}
	return eventually(ctx, "namespace "+namespace+" is gone", func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// eventually polls until check returns true. The error says what was waited for.
func eventually(ctx context.Context, what string, check func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, check); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	metricsServer = "metrics-server"
	// scalesWithin is the time in which a change of the load has passed through kubelets, both metrics-servers and the
	// autoscaler. Each of them looks every 15 s.
	scalesWithin = 5 * time.Minute
	// mostReplicas is the limit of the autoscaler.
	mostReplicas = 4
)

// The autoscaler, the metrics-servers and kubectl are Kubernetes' own. Only the virtual nodes tell them what the pods
// use.
func TestAnAutoscalerFollowsTheLoadOfElectedPods(t *testing.T) {
	w := setUp(t)
	clusters(t.Context(), t, "load", localFile("images/metrics-server.tar"))
	for _, c := range []*cluster{w.c2, w.c1} {
		c.runMetricsServer(t)
	}
	create(t, w.c1, w.webServer(1))
	create(t, w.c1, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.namespace},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intOrString(8080)}},
		},
	})
	autoscaler := w.autoscaler()
	create(t, w.c1, autoscaler)
	w.quiet(t, 1)
	w.eventuallyMeasured(t)
	w.eventuallyReads(t, autoscaler)

	load := w.load()
	create(t, w.c1, load)
	w.eventuallyScaled(t, mostReplicas)
	w.quiet(t, mostReplicas)
	w.eventuallyMeasured(t)
	for _, c := range w.all() {
		within(t, scalesWithin, "kubectl top to show the node of "+c.name, func(ctx context.Context) error {
			return w.top(ctx, "node", "admiralty-"+c.name)
		})
	}

	if err := w.c1.Delete(t.Context(), load); err != nil {
		t.Fatal(err)
	}
	w.eventuallyScaled(t, 1)
	w.quiet(t, 1)
}

// runMetricsServer installs metrics-server by its own chart until the test ends.
func (c *cluster) runMetricsServer(t *testing.T) {
	t.Helper()
	module := moduleFolder(t, "../../hack/tools/metrics-server", "sigs.k8s.io/metrics-server")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			out, err := runKubectl(ctx, "--context", c.name, "-n", releaseNamespace, "logs", "deploy/"+metricsServer)
			t.Logf("metrics-server of %s: %v\n%s", c.name, err, out)
		}
		c.helm(ctx, t, "uninstall", metricsServer, "--wait")
	})
	c.helm(t.Context(), t, "upgrade", "--install", metricsServer, filepath.Join(module, "charts", metricsServer),
		"--wait", "--set", "image.repository=localhost/metrics-server", "--set", "image.tag=dev",
		"--set", "args={--kubelet-insecure-tls}")
}

// autoscaler returns an autoscaler of the web server that wants a small use of CPU. It does not wait before it removes
// pods.
func (w *world) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.namespace},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Name: "web",
			},
			MinReplicas: new(int32(1)), MaxReplicas: mostReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(30)),
					},
				},
			}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0))},
			},
		},
	}
}

// load returns a plain pod in another namespace that keeps the web servers at work, through their Service.
func (w *world) load() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "load-" + w.namespace, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []corev1.Container{{
				Name: "load", Image: image, ImagePullPolicy: corev1.PullNever,
				Args: []string{"stream", "http://web." + w.namespace + "/work?for=20ms"},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				},
			}},
		},
	}
}

// eventuallyMeasured waits until kubectl top shows each proxy.
func (w *world) eventuallyMeasured(t *testing.T) {
	t.Helper()
	within(t, scalesWithin, "kubectl top to show the pods", func(ctx context.Context) error {
		proxies, _, err := w.pods(ctx, w.c1)
		if err != nil {
			return err
		}
		for i := range proxies {
			err = errors.Join(err, w.top(ctx, "pod", proxies[i].Name))
		}
		return err
	})
}

// top reports whether kubectl shows what an object uses. An idle pod uses no CPU, but always memory.
func (w *world) top(ctx context.Context, kind, name string) error {
	out, err := runKubectl(ctx, "--context", "c1", "-n", w.namespace, "top", kind, name, "--no-headers")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	fields := strings.Fields(out)
	if len(fields) < 3 || fields[0] != name || !strings.HasSuffix(fields[1], "m") || strings.Contains(out, "unknown") {
		return fmt.Errorf("kubectl top printed %q", out)
	}
	return nil
}

// eventuallyReads waits until the autoscaler has computed from metrics.
func (w *world) eventuallyReads(t *testing.T, autoscaler *autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	within(t, scalesWithin, "the autoscaler to read metrics", func(ctx context.Context) error {
		if err := w.c1.Get(ctx, client.ObjectKeyFromObject(autoscaler), autoscaler); err != nil {
			return err
		}
		for _, condition := range autoscaler.Status.Conditions {
			if condition.Type == autoscalingv2.ScalingActive && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", autoscaler.Status.Conditions)
	})
}

func (w *world) eventuallyScaled(t *testing.T, replicas int32) {
	t.Helper()
	what := fmt.Sprintf("the autoscaler to want a scale of %d", replicas)
	within(t, scalesWithin, what, func(ctx context.Context) error {
		autoscaler := w.autoscaler()
		if err := w.c1.Get(ctx, client.ObjectKeyFromObject(autoscaler), autoscaler); err != nil {
			return err
		}
		if autoscaler.Status.DesiredReplicas != replicas {
			return fmt.Errorf("it is %+v", autoscaler.Status)
		}
		return nil
	})
}

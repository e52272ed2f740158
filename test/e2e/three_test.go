//go:build e2e && three

package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// removal is the time after which copies that nobody needs must be gone: they are kept for two minutes.
const removal = 5 * time.Minute

// three is a world with a third cluster c3, a target that has the namespace, too.
type three struct {
	*world
	c3 *cluster
}

func setUpThree(t *testing.T) *three {
	t.Helper()
	w := &three{c3: open(t, "c3")}
	w.world = setUp(t)
	t.Cleanup(func() { w.empty(t, w.c3) })
	create(t, w.c3, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.awaitAccount(t, w.c3)
	w.awaitRights(t, w.c3)
	return w
}

func (w *three) all() []*cluster { return []*cluster{w.c1, w.c2, w.c3} }

func (w *three) meta(name string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: w.namespace, Annotations: annotations}
}

// application returns the objects of a small web application, without its Deployment.
func (w *three) application() []client.Object {
	port := networkingv1.ServiceBackendPort{Name: "http"}
	prefix := networkingv1.PathTypePrefix
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: w.meta("greeting", nil), Data: map[string]string{"text": "hello"}},
		&corev1.Secret{ObjectMeta: w.meta("password", nil), StringData: map[string]string{"value": "first"}},
		&corev1.Secret{
			ObjectMeta: w.meta("tls", nil),
			Type:       corev1.SecretTypeOpaque,
			StringData: map[string]string{"tls.crt": "c", "tls.key": "k"},
		},
		&corev1.ServiceAccount{ObjectMeta: w.meta("web", map[string]string{v1alpha1.AnnotationFollow: ""})},
		&corev1.Service{ObjectMeta: w.meta("web", nil), Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		}},
		&networkingv1.Ingress{ObjectMeta: w.meta("web", nil), Spec: networkingv1.IngressSpec{
			TLS: []networkingv1.IngressTLS{{Hosts: []string{"web.example.com"}, SecretName: "tls"}},
			Rules: []networkingv1.IngressRule{{Host: "web.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
					{
						Path:     "/",
						PathType: &prefix,
						Backend: networkingv1.IngressBackend{
							Service: &networkingv1.IngressServiceBackend{Name: "web", Port: port},
						},
					},
				}},
			}}},
		}},
	}
}

// deploy makes the application and waits until it runs in all clusters.
func (w *three) deploy(t *testing.T, replicas int32) {
	t.Helper()
	for _, object := range w.application() {
		create(t, w.c1, object)
	}
	web := w.webServer(replicas)
	web.Spec.Strategy.RollingUpdate = nil
	spec := &web.Spec.Template.Spec
	spec.ServiceAccountName = "web"
	spec.TerminationGracePeriodSeconds = new(int64(20))
	spec.Volumes = []corev1.Volume{
		{
			Name: "greeting",
			VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "greeting"},
				},
			},
		},
		{
			Name:         "password",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}},
		},
	}
	container := &spec.Containers[0]
	container.Args = []string{"serve", "--drain", "10s"}
	container.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	container.VolumeMounts = []corev1.VolumeMount{
		{Name: "greeting", MountPath: "/greeting"},
		{Name: "password", MountPath: "/password"},
	}
	container.Env = []corev1.EnvVar{
		{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "password"}, Key: "value",
		}}},
	}
	create(t, w.c1, web)
	w.quietIn(t, int(replicas))
}

// quietIn waits until all replicas run, some in each cluster.
func (w *three) quietIn(t *testing.T, replicas int) map[string][]corev1.Pod {
	t.Helper()
	var running map[string][]corev1.Pod
	eventually(t, fmt.Sprintf("%d replicas in three clusters", replicas), func(ctx context.Context) error {
		running = map[string][]corev1.Pod{}
		count := 0
		for _, c := range w.all() {
			_, delegates, err := w.pods(ctx, c)
			if err != nil {
				return err
			}
			for i := range delegates {
				if !ready(&delegates[i]) || delegates[i].DeletionTimestamp != nil {
					return fmt.Errorf("delegate %s in %s is %s", delegates[i].Name, c.name, delegates[i].Status.Phase)
				}
				running[c.name] = append(running[c.name], delegates[i])
				count++
			}
		}
		if count != replicas || len(running) != 3 {
			return fmt.Errorf("%d replicas in %d clusters", count, len(running))
		}
		return nil
	})
	return running
}

// client starts a plain pod in each cluster. The pod sends requests to the Service there, by its cluster IP, all the
// time.
func (w *three) clients(t *testing.T) {
	t.Helper()
	for _, c := range w.all() {
		service := &corev1.Service{}
		eventually(t, "the Service in "+c.name, func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "web"}, service)
		})
		if ip := service.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone {
			t.Fatalf("the Service in %s has the cluster IP %q", c.name, ip)
		}
		w.reachable(t, c, 6)
		create(t, c, &corev1.Pod{ObjectMeta: w.meta("client", nil), Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{
				{
					Name:            "client",
					Image:           image,
					ImagePullPolicy: corev1.PullNever,
					Args: []string{
						"stream",
						"--every",
						"50ms",
						"--timeout",
						"15s",
						"http://" + service.Spec.ClusterIP + "/",
					},
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
					},
				},
			},
		}})
	}
}

// reachable waits until the Service's EndpointSlices in a cluster have exactly so many ready endpoints.
func (w *three) reachable(t *testing.T, c *cluster, endpoints int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d ready endpoints in %s", endpoints, c.name), func(ctx context.Context) error {
		slicesOf := &discoveryv1.EndpointSliceList{}
		if err := c.List(
			ctx,
			slicesOf,
			client.InNamespace(w.namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: "web"},
		); err != nil {
			return err
		}
		addresses := map[string]bool{}
		for _, slice := range slicesOf.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					addresses[endpoint.Addresses[0]] = true
				}
			}
		}
		if len(addresses) != endpoints {
			return fmt.Errorf("there are %d: %v", len(addresses), slices.Sorted(maps.Keys(addresses)))
		}
		return nil
	})
}

var answered = regexp.MustCompile(`(?m)^answered: (\S+)$`)

// heard waits until the client of a cluster has received answers of all these pods.
func (w *three) heard(t *testing.T, c *cluster, pods []string) {
	t.Helper()
	eventually(t, "the client in "+c.name+" to reach all replicas", func(ctx context.Context) error {
		out, err := runKubectl(ctx, "--context", c.name, "--namespace", w.namespace, "logs", "client")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		heard := map[string]bool{}
		for _, match := range answered.FindAllStringSubmatch(out, -1) {
			heard[match[1]] = true
		}
		for _, pod := range pods {
			if !heard[pod] {
				return fmt.Errorf("%s has not answered, only %v", pod, slices.Sorted(maps.Keys(heard)))
			}
		}
		return nil
	})
}

var asked = regexp.MustCompile(`asked (\d+) times, failed (\d+) times`)

// end stops a cluster's client, which must not have had a failure. The log of a deleted pod would be lost, so end
// shortens the pod's active deadline instead.
func (w *three) end(t *testing.T, c *cluster) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: w.meta("client", nil)}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`))
	if err := c.Patch(t.Context(), pod, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client in "+c.name+" to end", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Terminated != nil {
				return nil
			}
		}
		return fmt.Errorf("it is %s", pod.Status.Phase)
	})
	out, err := runKubectl(t.Context(), "--context", c.name, "--namespace", w.namespace, "logs", "client")
	if err != nil {
		t.Fatalf("reading what the client in %s logged: %v\n%s", c.name, err, out)
	}
	total := asked.FindStringSubmatch(out)
	if total == nil {
		t.Fatalf("the client in %s did not say how often it asked:\n%s", c.name, out)
	}
	if n, _ := strconv.Atoi(total[1]); n < 200 {
		t.Errorf("the client in %s asked %d times only", c.name, n)
	}
	if total[2] != "0" {
		t.Errorf(
			"the client in %s: %s:\n%s",
			c.name,
			total[0],
			strings.Join(regexp.MustCompile(`(?m)^failed: .*$`).FindAllString(out, 20), "\n"),
		)
	}
	t.Logf("the client in %s: %s", c.name, total[0])
}

// names returns the host names of delegates, which are the names of their proxies.
func names(running map[string][]corev1.Pod) []string {
	var all []string
	for _, pods := range running {
		for _, pod := range pods {
			all = append(all, pod.Annotations[v1alpha1.AnnotationParentName])
		}
	}
	return all
}

func (w *three) inside(t *testing.T, c *cluster, pod *corev1.Pod, command ...string) string {
	t.Helper()
	out, err := runKubectl(
		t.Context(),
		append(
			[]string{"--context", c.name, "--namespace", w.namespace, "exec", pod.Name, "--", "/whoami"},
			command...)...)
	if err != nil {
		t.Fatalf("running %v in %s: %v\n%s", command, c.name, err, out)
	}
	return out
}

func (w *three) nothingIn(ctx context.Context, c *cluster) error {
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &v1alpha1.PodChaperonList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.ServiceAccountList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
		&networkingv1.IngressList{},
	} {
		if err := c.List(
			ctx,
			list,
			client.InNamespace(w.namespace),
			client.HasLabels{v1alpha1.LabelParentClusterID},
		); err != nil {
			return err
		}
		if left := meta.LenList(list); left > 0 {
			return fmt.Errorf("%d of %T", left, list)
		}
	}
	return nil
}

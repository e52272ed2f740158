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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	container.Args = []string{"serve", "--drain", "5s"}
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
						"5s",
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

func names(running map[string][]corev1.Pod) []string {
	var all []string
	for _, pods := range running {
		for _, pod := range pods {
			all = append(all, pod.Name)
		}
	}
	return all
}

func TestFollowingAWebApplicationRunsInThreeClustersWithoutAFailedRequest(t *testing.T) {
	w := setUpThree(t)
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c2")
	})
	w.deploy(t, 6)
	w.clients(t)
	running := w.quietIn(t, 6)
	for _, c := range w.all() {
		w.heard(t, c, names(running))
	}

	w.kubectl(t, "set", "env", "deployment/web", "VERSION=2")
	w.kubectl(t, "rollout", "status", "deployment/web", "--timeout=3m")
	updated := w.quietIn(t, 6)
	for _, c := range w.all() {
		w.heard(t, c, names(updated))
	}
	w.kubectl(
		t,
		"drain",
		"admiralty-c2",
		"--ignore-daemonsets",
		"--delete-emptydir-data",
		"--timeout=4m",
		"--pod-selector",
		"app=web",
	)
	eventually(t, "six replicas in c1 and c3", func(ctx context.Context) error {
		count := 0
		for _, c := range w.all() {
			_, delegates, err := w.pods(ctx, c)
			if err != nil {
				return err
			}
			for i := range delegates {
				if c == w.c2 || !ready(&delegates[i]) {
					return fmt.Errorf("delegate %s in %s is %s", delegates[i].Name, c.name, delegates[i].Status.Phase)
				}
				count++
			}
		}
		if count != 6 {
			return fmt.Errorf("there are %d", count)
		}
		return nil
	})
	for _, c := range w.all() {
		w.reachable(t, c, 6)
	}
	for _, c := range w.all() {
		w.end(t, c)
	}
}

func TestFollowingWhatAPodNeedsGoesWithItAndGoesAway(t *testing.T) {
	w := setUpThree(t)
	w.deploy(t, 6)
	running := w.quietIn(t, 6)
	for _, c := range w.all() {
		pod := running[c.name][0]
		if pod.Spec.ServiceAccountName != "web" {
			t.Errorf("the delegate in %s runs as %q", c.name, pod.Spec.ServiceAccountName)
		}
		for _, check := range []struct{ want, got string }{
			{"hello", w.inside(t, c, &pod, "cat", "/greeting/text")},
			{"first", w.inside(t, c, &pod, "cat", "/password/value")},
			{"first", strings.TrimSpace(w.inside(t, c, &pod, "env", "PASSWORD"))},
		} {
			if check.got != check.want {
				t.Errorf("inside the delegate in %s: %q, want %q", c.name, check.got, check.want)
			}
		}
		ingress := &networkingv1.Ingress{}
		eventually(t, "the Ingress and its Secret in "+c.name, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "tls"}, &corev1.Secret{}); err != nil {
				return err
			}
			return c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "web"}, ingress)
		})
	}

	w.kubectl(t, "patch", "configmap", "greeting", "--type=merge", "-p", `{"data":{"text":"good-bye"}}`)
	w.kubectl(t, "patch", "secret", "password", "--type=merge", "-p", `{"stringData":{"value":"second"}}`)
	for _, c := range w.all() { // A kubelet looks about once a minute.
		pod := running[c.name][0]
		eventually(t, "the changes to be seen inside the delegate in "+c.name, func(context.Context) error {
			greeting, password := w.inside(
				t,
				c,
				&pod,
				"cat",
				"/greeting/text",
			), w.inside(
				t,
				c,
				&pod,
				"cat",
				"/password/value",
			)
			if greeting != "good-bye" || password != "second" {
				return fmt.Errorf("they are %q and %q", greeting, password)
			}
			return nil
		})
	}

	w.kubectl(
		t,
		"delete",
		"deployment,service,ingress,secret,configmap,serviceaccount",
		"web",
		"password",
		"tls",
		"greeting",
		"--ignore-not-found",
	)
	ctx, cancel := context.WithTimeout(t.Context(), removal)
	defer cancel()
	for _, c := range []*cluster{w.c2, w.c3} {
		eventuallyIn(
			ctx,
			t,
			"nothing to be left in "+c.name,
			func(ctx context.Context) error { return w.nothingIn(ctx, c) },
		)
	}
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

func TestFollowingAPodWaitsForItsSecretAndSaysSo(t *testing.T) {
	w := setUpThree(t)
	template := podTemplate("waits")
	template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}},
	}
	create(t, w.c1, w.pod("waits", template))
	eventually(t, "the pod to say what it lacks", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "waits"}, pod); err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled &&
				strings.Contains(condition.Message, `Secret "late" does not exist`) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", pod.Status.Conditions)
	})
	create(t, w.c1, &corev1.Secret{ObjectMeta: w.meta("late", nil), StringData: map[string]string{"A": "b"}})
	w.reaches(t, "waits", corev1.PodRunning)
}

func TestFollowingAnObjectOfTheTargetIsNotTouchedAndThePodGoesElsewhereOrUsesIt(t *testing.T) {
	w := setUpThree(t)
	for _, c := range []*cluster{w.c2, w.c3} {
		create(t, c, &corev1.Secret{ObjectMeta: w.meta("taken", nil), StringData: map[string]string{"A": "theirs"}})
	}
	create(t, w.c1, &corev1.Secret{ObjectMeta: w.meta("taken", nil), StringData: map[string]string{"A": "ours"}})
	only := func(name, target string, annotations map[string]string) *corev1.Pod {
		template := podTemplate(name)
		template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "taken"}}},
		}
		maps.Copy(template.Annotations, annotations)
		return w.pod(name, inTarget(target, template))
	}
	create(t, w.c1, only("refused", "c2", nil))
	eventually(t, "the pod to say why c2 does not take it", func(ctx context.Context) error {
		out, err := runKubectl(
			ctx,
			"--context",
			"c1",
			"--namespace",
			w.namespace,
			"get",
			"events",
			"-o",
			"jsonpath={.items[*].message}",
		)
		if err != nil || !strings.Contains(out, `Secret "taken" exists there and does not come from this cluster`) {
			return fmt.Errorf("events: %s %w", out, err)
		}
		return nil
	})
	create(t, w.c1, only("uses", "c3", map[string]string{v1alpha1.AnnotationUseExisting: "secrets/taken"}))
	proxy := w.reaches(t, "uses", corev1.PodRunning)
	_, delegates, err := w.pods(t.Context(), w.c3)
	if err != nil || len(delegates) != 1 {
		t.Fatalf("delegates of %s in c3: %d, %v", proxy.Name, len(delegates), err)
	}
	if got := strings.TrimSpace(w.inside(t, w.c3, &delegates[0], "env", "A")); got != "theirs" {
		t.Errorf("the delegate uses %q", got)
	}
	secret := &corev1.Secret{}
	if err := w.c2.Get(
		t.Context(),
		client.ObjectKey{Namespace: w.namespace, Name: "taken"},
		secret,
	); err != nil ||
		string(secret.Data["A"]) != "theirs" {
		t.Errorf("the Secret in c2 is %q, %v", secret.Data["A"], err)
	}
}

// Each API server numbers its changes. A delegate with a smaller number than its Secret was created before the Secret.
func TestFollowingNoDelegateIsMadeBeforeItsSecret(t *testing.T) {
	w := setUpThree(t)
	const pods = 200
	watchers := map[*cluster]func() (secrets, delegates map[string]uint64){}
	for _, c := range []*cluster{w.c2, w.c3} {
		watchers[c] = w.firstVersions(t, c)
	}
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		create(t, w.c1, &corev1.Secret{ObjectMeta: w.meta(name, nil), StringData: map[string]string{"A": name}})
	}
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		template := inC2OrC3(podTemplate("ordering"))
		template.Spec.NodeSelector = map[string]string{"type": "kwok"}
		template.Spec.Tolerations = []corev1.Toleration{
			{Key: "kwok.x-k8s.io/node", Operator: corev1.TolerationOpExists},
		}
		template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
		}
		create(t, w.c1, w.pod(name, template))
	}
	eventually(t, "all pods to run", func(ctx context.Context) error {
		list := &corev1.PodList{}
		if err := w.c1.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != pods {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
	checked := 0
	for c, stop := range watchers {
		secrets, delegates := stop()
		for name, version := range delegates {
			before, ok := secrets[name]
			if !ok || before >= version {
				t.Errorf(
					"in %s, the Secret of %s is of version %d (seen: %t), its delegate of %d",
					c.name,
					name,
					before,
					ok,
					version,
				)
			}
			checked++
		}
	}
	if checked != pods {
		t.Errorf("%d delegates were seen, want %d", checked, pods)
	}
}

// firstVersions records the resource versions at which Secrets and delegates are created from now on, by the name of
// the proxy.
func (w *three) firstVersions(t *testing.T, c *cluster) func() (secrets, delegates map[string]uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := map[string]map[string]uint64{}
	done := make(chan struct{}, 2)
	for kind, list := range map[string]client.ObjectList{
		"secrets": &corev1.SecretList{}, "delegates": &corev1.PodList{},
	} {
		events, err := c.Watch(ctx, list, client.InNamespace(w.namespace))
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		first := map[string]uint64{}
		result[kind] = first
		go func() {
			defer func() { done <- struct{}{} }()
			for event := range events.ResultChan() {
				object, ok := event.Object.(client.Object)
				if !ok {
					continue
				}
				name := object.GetName()
				if parent := object.GetAnnotations()[v1alpha1.AnnotationParentName]; parent != "" {
					name = parent
				}
				version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
				if _, seen := first[name]; !seen && err == nil {
					first[name] = version
				}
			}
		}()
	}
	return func() (map[string]uint64, map[string]uint64) {
		cancel()
		<-done
		<-done
		return result["secrets"], result["delegates"]
	}
}

// A ServiceAccount that is missing in a target is reported, unless the source asks to create it there.
func TestFollowingAMissingServiceAccountIsAReason(t *testing.T) {
	w := setUpThree(t)
	create(t, w.c1, &corev1.ServiceAccount{ObjectMeta: w.meta("builder", nil)})
	template := inTarget("c2", podTemplate("builds"))
	template.Spec.ServiceAccountName = "builder"
	create(t, w.c1, w.pod("builds", template))
	eventually(t, "the pod to say what is missing in c2", func(ctx context.Context) error {
		out, err := runKubectl(
			ctx,
			"--context",
			"c1",
			"--namespace",
			w.namespace,
			"get",
			"events",
			"-o",
			"jsonpath={.items[*].message}",
		)
		if err != nil || !strings.Contains(out, `serviceaccount "builder" not found`) {
			return fmt.Errorf("events: %s %w", out, err)
		}
		return nil
	})
	if err := w.c2.Get(
		t.Context(),
		client.ObjectKey{Namespace: w.namespace, Name: "builder"},
		&corev1.ServiceAccount{},
	); !apierrors.IsNotFound(
		err,
	) {
		t.Errorf("the account is in c2: %v", err)
	}
}

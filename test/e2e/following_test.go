//go:build e2e && three

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

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
	firsts := map[*cluster]func(kind string) map[string]uint64{}
	for _, c := range []*cluster{w.c2, w.c3} {
		firsts[c] = w.firstVersions(t, c)
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
	eventually(t, "the watches to have shown each delegate and its Secret", func(context.Context) error {
		seen := 0
		for c, of := range firsts {
			for name := range of("delegates") {
				if _, ok := of("secrets")[name]; !ok {
					return fmt.Errorf("there was no Secret of %s in %s", name, c.name)
				}
				seen++
			}
		}
		if seen != pods {
			return fmt.Errorf("there were %d delegates", seen)
		}
		return nil
	})
	for c, of := range firsts {
		secrets := of("secrets")
		for name, version := range of("delegates") {
			if secrets[name] >= version {
				t.Errorf("in %s, the Secret of %s is of version %d, its delegate of %d",
					c.name, name, secrets[name], version)
			}
		}
	}
}

// firstVersions records the resource versions at which Secrets and delegates are created from now on, by the name of
// the proxy. API servers end watches, so each is begun again where it ended.
func (w *three) firstVersions(t *testing.T, c *cluster) (of func(kind string) map[string]uint64) {
	t.Helper()
	var mu sync.Mutex
	result := map[string]map[string]uint64{}
	for kind, list := range map[string]client.ObjectList{
		"secrets": &corev1.SecretList{}, "delegates": &corev1.PodList{},
	} {
		if err := c.List(t.Context(), list, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
		watcher, err := toolswatch.NewRetryWatcherWithContext(t.Context(), list.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, list, client.InNamespace(w.namespace), &client.ListOptions{Raw: &options})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		first := map[string]uint64{}
		result[kind] = first
		go func() {
			for event := range watcher.ResultChan() {
				object, ok := event.Object.(client.Object)
				if !ok {
					continue
				}
				name := object.GetName()
				if parent := object.GetAnnotations()[v1alpha1.AnnotationParentName]; parent != "" {
					name = parent
				}
				version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
				mu.Lock()
				if _, seen := first[name]; !seen && err == nil {
					first[name] = version
				}
				mu.Unlock()
			}
		}()
	}
	return func(kind string) map[string]uint64 {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(result[kind])
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

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const image = "localhost/whoami:dev"

// podTemplate returns the template of an elected pod of the test image that requests 100m and 32Mi.
func podTemplate(app string, args ...string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": app},
			Annotations: map[string]string{v1alpha1.AnnotationElect: ""},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "whoami", Image: image, Args: args, ImagePullPolicy: corev1.PullNever,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("32Mi"),
				}},
			}},
		},
	}
}

// inTarget returns the template with a constraint: its pods run only in this target.
func inTarget(name string, template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	const selector = "nodeSelector: {multicluster.admiralty.io/cluster-target-name: %s}"
	template.Annotations[v1alpha1.AnnotationProxyConstraints] = fmt.Sprintf(selector, name)
	return template
}

func (w *world) pod(name string, template corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = name, w.namespace
	return pod
}

// webServer returns a Deployment of elected web servers with a readiness probe.
func (w *world) webServer(replicas int32) *appsv1.Deployment {
	template := podTemplate("web")
	template.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intOrString(8080)},
		},
		PeriodSeconds:  1,
		TimeoutSeconds: 10, // A busy machine must not make a pod unready.
	}
	template.Spec.TerminationGracePeriodSeconds = new(int64(5))
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template,
		},
	}
}

// pods lists the pods of the namespace: proxies and delegates.
func (w *world) pods(ctx context.Context, c *cluster) (proxies, delegates []corev1.Pod, err error) {
	list := &corev1.PodList{}
	if err := c.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
		return nil, nil, err
	}
	for _, pod := range list.Items {
		if pod.Labels[v1alpha1.LabelParentUID] != "" {
			delegates = append(delegates, pod)
		} else {
			proxies = append(proxies, pod)
		}
	}
	return proxies, delegates, nil
}

// placement holds the pods of the namespace and their places, as users see them.
type placement struct {
	proxies   []corev1.Pod
	delegates map[string][]corev1.Pod // by cluster
	byNode    map[string]int          // running proxies by virtual node
}

// uids are those of the proxies and delegates, with their names.
func (p *placement) uids() map[types.UID]string {
	uids := map[types.UID]string{}
	for _, pod := range slices.Concat(p.proxies, p.delegates["c1"], p.delegates["c2"]) {
		uids[pod.UID] = pod.Name
	}
	return uids
}

func (w *world) placement(ctx context.Context) (*placement, error) {
	p := &placement{delegates: map[string][]corev1.Pod{}, byNode: map[string]int{}}
	for _, c := range w.all() {
		proxies, delegates, err := w.pods(ctx, c)
		if err != nil {
			return nil, err
		}
		p.proxies = append(p.proxies, proxies...)
		p.delegates[c.name] = delegates
	}
	for _, proxy := range p.proxies {
		p.byNode[proxy.Spec.NodeName]++
	}
	return p, nil
}

// quiet waits until exactly so many proxies run and no other pods exist. Each proxy must have one running delegate and
// show its IP. Their virtual nodes exist.
func (w *world) quiet(t *testing.T, replicas int) *placement {
	t.Helper()
	var quiet *placement
	eventually(t, fmt.Sprintf("%d proxies running with their delegates", replicas), func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err != nil {
			return err
		}
		quiet = p
		// Proxies of a node that has just been deleted look like others until the garbage collector finds them.
		for name := range p.byNode {
			if err := w.c1.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}); err != nil {
				return fmt.Errorf("the node %q of proxies: %w", name, err)
			}
		}
		return p.check(replicas)
	})
	return quiet
}

func (p *placement) check(replicas int) error {
	delegates := map[string]corev1.Pod{}
	count := 0
	for name, pods := range p.delegates {
		for _, delegate := range pods {
			delegates[delegate.Labels[v1alpha1.LabelParentUID]+"@admiralty-"+name] = delegate
			count++
		}
	}
	if len(p.proxies) != replicas || count != replicas {
		return fmt.Errorf("%d proxies and %d delegates", len(p.proxies), count)
	}
	for _, proxy := range p.proxies {
		delegate, ok := delegates[string(proxy.UID)+"@"+proxy.Spec.NodeName]
		if !ok {
			return fmt.Errorf("proxy %s on node %q has no delegate there", proxy.Name, proxy.Spec.NodeName)
		}
		if proxy.DeletionTimestamp != nil || !ready(&proxy) || !ready(&delegate) {
			return fmt.Errorf("proxy %s is %s, its delegate %s", proxy.Name, proxy.Status.Phase, delegate.Status.Phase)
		}
		if proxy.Status.PodIP == "" || proxy.Status.PodIP != delegate.Status.PodIP {
			return fmt.Errorf(
				"proxy %s shows IP %q, its delegate has %q",
				proxy.Name,
				proxy.Status.PodIP,
				delegate.Status.PodIP,
			)
		}
	}
	return nil
}

func ready(pod *corev1.Pod) bool {
	return hasCondition(pod, corev1.PodReady, corev1.ConditionTrue)
}

func hasCondition(pod *corev1.Pod, conditionType corev1.PodConditionType, status corev1.ConditionStatus) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == conditionType {
			return c.Status == status
		}
	}
	return false
}

// reaches waits until the pod has the phase, and returns the pod.
func (w *world) reaches(t *testing.T, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	eventually(t, fmt.Sprintf("pod %s to be %s", name, phase), func(ctx context.Context) error {
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pod); err != nil {
			return err
		}
		if pod.Status.Phase != phase {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return nil
	})
	return pod
}

// delegateOf finds the one delegate of a proxy, and its cluster.
func (w *world) delegateOf(t *testing.T, proxy *corev1.Pod) (*cluster, *corev1.Pod) {
	t.Helper()
	for _, c := range w.all() {
		_, delegates, err := w.pods(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, delegate := range delegates {
			if delegate.Labels[v1alpha1.LabelParentUID] == string(proxy.UID) {
				return c, &delegate
			}
		}
	}
	t.Fatalf("no cluster has a delegate of %s", proxy.Name)
	return nil, nil
}

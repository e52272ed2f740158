package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controllerActions have controllers make pods.
func controllerActions() []*testCase {
	const topic, services = "Deployments, ReplicaSets, StatefulSets", "Services"
	return []*testCase{
		inShort(action(topic, "deployment-scale", "a Deployment is scaled up and down", scaleDeployment)),
		inShort(action(topic, "deployment-rollout", "a Deployment rolls out and back", rollOut)),
		action(topic, "deployment-recreate", "a Deployment that replaces all pods at once", recreate),
		action(topic, "deployment-stuck", "a roll-out that does not get ready", stuckRollOut),
		inShort(action(topic, "statefulset", "the names and order of a StatefulSet's pods", statefulSet)),
		action(topic, "statefulset-update", "a StatefulSet is updated", updateStatefulSet),
		action(topic, "replicaset-quarantine", "a pod leaves its ReplicaSet by a label", quarantine),
		action(topic, "replicaset-adopt", "a ReplicaSet adopts a pod", adopt),
		inShort(action(services, "service-endpoints", "endpoints follow readiness", endpoints)),
		action(services, "service-request", "a request by a Service", requestByService),
		action(services, "service-headless", "the name of a pod by a headless Service", headless),
	}
}

func labels(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func template(app string, args ...string) corev1.PodTemplateSpec {
	pod := newPod(app, args...)
	if len(args) == 0 {
		probed(&pod.Spec)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
}

func newReplicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: labels(name), Template: template(name)},
	}
}

func newDeployment(replicas int32) *appsv1.Deployment {
	const name = "web"
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: labels(name), Template: template(name)},
	}
}

func newStatefulSet(replicas int32) *appsv1.StatefulSet {
	const name = "db"
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, Selector: labels(name), Template: template(name),
		},
	}
}

func newService(name, app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

// pods lists the pods of the namespace, in the order of their names.
func (s *side) pods(ctx context.Context, matching ...client.ListOption) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := s.c.List(ctx, list, append(matching, client.InNamespace(s.namespace))...); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// onlyReady waits until one pod with a label is ready, and returns it.
func (s *side) onlyReady(ctx context.Context, label string) (*corev1.Pod, error) {
	if err := s.ready(ctx, 1, label); err != nil {
		return nil, err
	}
	key, value, _ := strings.Cut(label, "=")
	pods, err := s.pods(ctx, client.MatchingLabels{key: value})
	if err != nil {
		return nil, err
	}
	if len(pods) != 1 {
		return nil, fmt.Errorf("there are %d pods with the label %s, want one", len(pods), label)
	}
	return &pods[0], nil
}

// ready waits until exactly so many pods of a label exist, and all are ready.
func (s *side) ready(ctx context.Context, want int, label string) error {
	key, value, _ := strings.Cut(label, "=")
	return s.await(ctx, fmt.Sprintf("%d pods to be ready", want), func(ctx context.Context) error {
		pods, err := s.pods(ctx, client.MatchingLabels{key: value})
		if err != nil {
			return err
		}
		if len(pods) != want {
			return fmt.Errorf("there are %d", len(pods))
		}
		for i := range pods {
			if err := hasAll(&pods[i], []string{isReady}); err != nil {
				return err
			}
		}
		return nil
	})
}

func scaleDeployment(ctx context.Context, s *side) error {
	if err := s.create(ctx, newDeployment(1)); err != nil {
		return err
	}
	for _, replicas := range []string{"3", "0", "1"} {
		s.try(ctx, "scale to "+replicas, "scale", "deployment/web", "--replicas="+replicas)
		deployment := &appsv1.Deployment{}
		wanted := []string{"{.spec.replicas}=" + replicas}
		if replicas != "0" {
			wanted = append(wanted, "{.status.readyReplicas}="+replicas)
		}
		if err := s.reachObject(ctx, deployment, "web", wanted...); err != nil {
			return err
		}
		var count int
		_, _ = fmt.Sscan(replicas, &count)
		if err := s.ready(ctx, count, "app=web"); err != nil {
			return err
		}
	}
	return nil
}

func rollOut(ctx context.Context, s *side) error {
	if err := s.create(ctx, newDeployment(2)); err != nil {
		return err
	}
	version := func(step string) error {
		if out, err := s.kubectl(ctx, "rollout", "status", "deployment/web", "--timeout=150s"); err != nil {
			return fmt.Errorf("%s: %w: %s", step, err, out)
		}
		if err := s.ready(ctx, 2, "app=web"); err != nil {
			return err
		}
		pods, err := s.pods(ctx)
		if err != nil {
			return err
		}
		out, err := s.kubectl(ctx, "exec", pods[0].Name, "--", program, "env", "VERSION")
		s.note(step, out)
		return err
	}
	if err := version("first"); err != nil {
		return err
	}
	s.try(ctx, "set", "set", "env", "deployment/web", "VERSION=2")
	if err := version("second"); err != nil {
		return err
	}
	s.try(ctx, "undo", "rollout", "undo", "deployment/web")
	return version("back")
}

func recreate(ctx context.Context, s *side) error {
	deployment := newDeployment(2)
	deployment.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if err := s.create(ctx, deployment); err != nil {
		return err
	}
	if err := s.ready(ctx, 2, "app=web"); err != nil {
		return err
	}
	s.try(ctx, "restart", "rollout", "restart", "deployment/web")
	if out, err := s.kubectl(ctx, "rollout", "status", "deployment/web", "--timeout=150s"); err != nil {
		return fmt.Errorf("rolling out: %w: %s", err, out)
	}
	return s.ready(ctx, 2, "app=web")
}

func stuckRollOut(ctx context.Context, s *side) error {
	deployment := newDeployment(1)
	deployment.Spec.ProgressDeadlineSeconds = new(int32(15))
	if err := s.create(ctx, deployment); err != nil {
		return err
	}
	if err := s.ready(ctx, 1, "app=web"); err != nil {
		return err
	}
	s.try(ctx, "set", "set", "image", "deployment/web", "main=localhost/missing:dev")
	if err := s.reachObject(ctx, deployment, "web",
		`{.status.conditions[?(@.type=="Progressing")].reason}=ProgressDeadlineExceeded`); err != nil {
		return err
	}
	s.note("available", fmt.Sprint(deployment.Status.AvailableReplicas))
	s.try(ctx, "undo", "rollout", "undo", "deployment/web")
	return s.ready(ctx, 1, "app=web")
}

func statefulSet(ctx context.Context, s *side) error {
	service := newService("db", "db")
	service.Spec.ClusterIP = corev1.ClusterIPNone
	if err := s.create(ctx, service); err != nil {
		return err
	}
	if err := s.create(ctx, newStatefulSet(2)); err != nil {
		return err
	}
	if err := s.ready(ctx, 2, "app=db"); err != nil {
		return err
	}
	for _, name := range []string{"db-0", "db-1"} {
		pod, err := s.pod(ctx, name)
		if err != nil {
			return err
		}
		s.note(name+" index", pod.Labels[appsv1.PodIndexLabel])
		s.try(ctx, name, "exec", name, "--", program, "cat", "/proc/sys/kernel/hostname")
	}
	s.try(ctx, "scale", "scale", "statefulset/db", "--replicas=1")
	return s.ready(ctx, 1, "app=db")
}

func updateStatefulSet(ctx context.Context, s *side) error {
	set := newStatefulSet(2)
	if err := s.create(ctx, set); err != nil {
		return err
	}
	if err := s.ready(ctx, 2, "app=db"); err != nil {
		return err
	}
	before, err := s.pod(ctx, "db-0")
	if err != nil {
		return err
	}
	s.try(ctx, "set", "set", "env", "statefulset/db", "VERSION=2")
	if out, err := s.kubectl(ctx, "rollout", "status", "statefulset/db", "--timeout=170s"); err != nil {
		return fmt.Errorf("rolling out: %w: %s", err, out)
	}
	after, err := s.pod(ctx, "db-0")
	if err != nil {
		return err
	}
	s.note("another pod of the name", before.UID != after.UID)
	s.try(ctx, "version", "exec", "db-0", "--", program, "env", "VERSION")
	return nil
}

func quarantine(ctx context.Context, s *side) error {
	if err := s.create(ctx, newReplicaSet("web", 1)); err != nil {
		return err
	}
	apart, err := s.onlyReady(ctx, "app=web")
	if err != nil {
		return err
	}
	if _, err := s.kubectl(ctx, "label", "pod", apart.Name, "app=apart", "--overwrite"); err != nil {
		return err
	}
	if err := s.ready(ctx, 1, "app=web"); err != nil {
		return err
	}
	return s.await(ctx, "the pod to be an orphan that runs", func(ctx context.Context) error {
		pod, err := s.pod(ctx, apart.Name)
		if err != nil {
			return err
		}
		if len(pod.OwnerReferences) > 0 || pod.DeletionTimestamp != nil {
			return fmt.Errorf("its owners are %v", pod.OwnerReferences)
		}
		s.note("restarts", fmt.Sprint(pod.Status.ContainerStatuses[0].RestartCount))
		return hasAll(pod, []string{isReady})
	})
}

func adopt(ctx context.Context, s *side) error {
	pod := newPod("pod")
	pod.Labels = map[string]string{"app": "web"}
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	if err := s.create(ctx, newReplicaSet("web", 1)); err != nil {
		return err
	}
	if err := s.reach(ctx, "pod", "{.metadata.ownerReferences[0].name}=web", isReady); err != nil {
		return err
	}
	return s.ready(ctx, 1, "app=web")
}

// endpoints makes a pod ready, and then not.
func endpoints(ctx context.Context, s *side) error {
	if err := s.create(ctx, newService("web", "pod")); err != nil {
		return err
	}
	pod := withData(newPod("pod"))
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 1,
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{program, "fail", "/data/runs", "2", "1", "exit"},
		}},
	}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if err := s.endpointsReady(ctx, true); err != nil {
		return err
	}
	s.try(ctx, "write", "exec", "pod", "--", program, "write", "/data/runs", "no number")
	if err := s.endpointsReady(ctx, false); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

func (s *side) endpointsReady(ctx context.Context, want bool) error {
	return s.await(ctx, fmt.Sprintf("an endpoint, ready: %t", want), func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		err := s.c.List(ctx, list, client.InNamespace(s.namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: "web"})
		if err != nil {
			return err
		}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready == want {
					return nil
				}
			}
		}
		return fmt.Errorf("there is none in %d slices", len(list.Items))
	})
}

// requestByService has a pod ask another one.
func requestByService(ctx context.Context, s *side) error {
	if err := s.create(ctx, newService("web", "server")); err != nil {
		return err
	}
	server := newPod("server")
	probed(&server.Spec)
	if err := s.start(ctx, server); err != nil {
		return err
	}
	if err := s.endpointsReady(ctx, true); err != nil {
		return err
	}
	return s.answers(ctx, "http://web/", "server")
}

func headless(ctx context.Context, s *side) error {
	service := newService("web", "server")
	service.Spec.ClusterIP = corev1.ClusterIPNone
	if err := s.create(ctx, service); err != nil {
		return err
	}
	server := newPod("server")
	server.Spec.Hostname, server.Spec.Subdomain = "one", "web"
	if err := s.start(ctx, server); err != nil {
		return err
	}
	return s.answers(ctx, "http://one.web:8080/", "one")
}

// answers waits until a request from another pod of the namespace is answered.
func (s *side) answers(ctx context.Context, url, want string) error {
	if err := s.start(ctx, newPod("client")); err != nil {
		return err
	}
	return s.await(ctx, "an answer of "+url, func(ctx context.Context) error {
		out, err := s.kubectl(ctx, "exec", "client", "--", program, "get", "--timeout=2s", url)
		if err == nil && strings.TrimSpace(out) != want {
			return fmt.Errorf("the answer is %q", out)
		}
		return err
	})
}

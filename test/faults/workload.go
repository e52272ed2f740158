package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// The labels "app" of pods say what may happen to them.
const (
	web    = "web"    // a Deployment, scaled and rolled out, drained
	db     = "db"     // a StatefulSet, scaled, drained
	fenced = "fenced" // a StatefulSet of one pod, fenced, drained
	alone  = "alone"  // a Deployment of one pod, fenced, drained
	pinned = "pinned" // a Deployment of one pod, fenced, which runs only in the target
	job    = "job"    // pods of Jobs, which finish
	task   = "task"   // bare pods that finish, or are deleted
	kept   = "kept"   // bare pods to which nobody does anything
)

// settings is the name of the ConfigMap and of the Secret that all pods need.
const settings = "settings"

const (
	webReplicas = 5
	// impatience is how long pods of controllers wait for a dead cluster.
	impatience = 10
	// patience is how long a fenced pod of a Deployment waits for a dead cluster: two fences of a minute, two minutes
	// and its grace period at least. So another one begins only when it has ended.
	patience = 250
)

func template(app string, args ...string) corev1.PodTemplateSpec {
	needed := corev1.LocalObjectReference{Name: settings}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"app": app}, Annotations: map[string]string{v1alpha1.AnnotationElect: ""},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(2)),
			Containers: []corev1.Container{{
				Name: "whoami", Image: "localhost/whoami:dev", Args: args, ImagePullPolicy: corev1.PullNever,
				EnvFrom: []corev1.EnvFromSource{
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: needed}},
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: needed}},
				},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
				}},
			}},
		},
	}
}

// impatient returns the template of pods that leave a dead cluster soon.
func impatient(t corev1.PodTemplateSpec) corev1.PodTemplateSpec { return tolerating(t, impatience) }

// tolerating returns the template of pods that leave a dead cluster after so many seconds.
func tolerating(t corev1.PodTemplateSpec, seconds int64) corev1.PodTemplateSpec {
	t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{
		Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: &seconds,
	})
	return t
}

// inTarget returns the template of pods that run only there.
func inTarget(name string, t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t.Annotations[v1alpha1.AnnotationProxyConstraints] =
		fmt.Sprintf("nodeSelector: {multicluster.admiralty.io/cluster-target-name: %s}", name)
	return t
}

func (l *lab) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: l.namespace}
}

func (l *lab) createWorkload(ctx context.Context) error {
	selects := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	serving := template(web)
	serving.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 1, TimeoutSeconds: 10, // A busy machine must not make a pod unready.
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt(8080)},
		},
	}
	// An end that takes a while shows whether the next pod waits for it.
	storing := template(db, "serve", "--drain=2s")
	storing.Spec.TerminationGracePeriodSeconds = new(int64(5))
	guarded := func(app string) corev1.PodTemplateSpec {
		t := template(app, "serve", "--drain=2s")
		t.Spec.TerminationGracePeriodSeconds = storing.Spec.TerminationGracePeriodSeconds
		t.Annotations[v1alpha1.AnnotationFenceAfter] = "60"
		return t
	}
	steady := func(app string) corev1.PodTemplateSpec {
		t := tolerating(guarded(app), patience)
		t.Annotations[checker.Steady] = "the workload"
		return t
	}
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: l.meta(settings), Data: map[string]string{
			"COLOR": "blue", checker.Run: l.namespace,
		}},
		&corev1.Secret{ObjectMeta: l.meta(settings), StringData: map[string]string{"PASSWORD": "secret"}},
		&policyv1.PodDisruptionBudget{ObjectMeta: l.meta(web), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)), Selector: selects(web),
		}},
		&appsv1.Deployment{ObjectMeta: l.meta(web), Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(webReplicas)), Selector: selects(web), Template: impatient(serving),
		}},
		&appsv1.StatefulSet{ObjectMeta: l.meta(db), Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: selects(db), Template: impatient(storing),
		}},
		&appsv1.StatefulSet{ObjectMeta: l.meta(fenced), Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: selects(fenced), Template: impatient(guarded(fenced)),
		}},
		&appsv1.Deployment{ObjectMeta: l.meta(alone), Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: selects(alone), Template: steady(alone),
		}},
		&appsv1.Deployment{ObjectMeta: l.meta(pinned), Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: selects(pinned), Template: inTarget(target, steady(pinned)),
		}},
		l.pod("kept-1", inTarget(source, template(kept))),
		l.pod("kept-2", inTarget(target, template(kept))),
	}
	for _, object := range objects {
		if err := l.create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// create creates an object of the source. It tries again if the API server does not answer in time.
func (l *lab) create(ctx context.Context, object client.Object) error {
	return until(ctx, func(ctx context.Context) error {
		next := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is one.
		return client.IgnoreAlreadyExists(l.clusters[source].Create(ctx, next))
	})
}

func (l *lab) pod(name string, t corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Name, pod.Namespace = name, l.namespace
	return pod
}

// task returns a bare pod that ends with an exit code after a while.
func (l *lab) task(name string, lasts time.Duration, code int) *corev1.Pod {
	t := template(task, "sleep", lasts.String(), fmt.Sprintf("--exit=%d", code))
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return l.pod(name, t)
}

// job returns a Job of three pods that last for a while each.
func (l *lab) job(name string, lasts time.Duration) *batchv1.Job {
	t := template(job, "sleep", lasts.String())
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: l.meta(name), Spec: batchv1.JobSpec{
		Completions: new(int32(3)), Parallelism: new(int32(2)), BackoffLimit: new(int32(0)), Template: t,
	}}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (w *world) job(args ...string) *batchv1.Job {
	template := podTemplate("job", args...)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: w.namespace},
		Spec:       batchv1.JobSpec{Template: template},
	}
}

func (w *world) jobEnds(t *testing.T, condition batchv1.JobConditionType) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{}
	eventually(t, fmt.Sprintf("the job to be %s", condition), func(ctx context.Context) error {
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "job"}, job); err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == condition && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", job.Status)
	})
	return job
}

func TestAJobCompletes(t *testing.T) {
	w := setUp(t)
	job := w.job("print", "the", "result")
	job.Spec.Completions, job.Spec.Parallelism = new(int32(4)), new(int32(2))
	create(t, w.c1, job)
	if got := w.jobEnds(t, batchv1.JobComplete).Status; got.Succeeded != 4 || got.Failed != 0 {
		t.Errorf("the job has %d succeeded and %d failed pods, want 4 and 0", got.Succeeded, got.Failed)
	}
	if out := w.kubectl(t, "logs", "-l", "batch.kubernetes.io/job-name=job"); strings.Count(out, "the result") != 4 {
		t.Errorf("logs of the finished pods:\n%s", out)
	}
}

func TestAJobThatFailsSaysSo(t *testing.T) {
	w := setUp(t)
	job := w.job("exit", "3")
	job.Spec.BackoffLimit = new(int32(0))
	create(t, w.c1, job)
	if got := w.jobEnds(t, batchv1.JobFailed).Status; got.Failed != 1 {
		t.Errorf("the job has %d failed pods, want 1", got.Failed)
	}
	proxies, _, err := w.pods(t.Context(), w.c1)
	if err != nil || len(proxies) != 1 {
		t.Fatalf("listing the job's pods: %d, %v", len(proxies), err)
	}
	terminated := proxies[0].Status.ContainerStatuses[0].State.Terminated
	if proxies[0].Status.Phase != corev1.PodFailed || terminated == nil || terminated.ExitCode != 3 {
		t.Errorf("the proxy is %s with %+v, want Failed with exit code 3", proxies[0].Status.Phase, terminated)
	}
}

func TestAnIndexedJobKnowsItsIndexes(t *testing.T) {
	w := setUp(t)
	job := w.job("env")
	job.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	job.Spec.Completions, job.Spec.Parallelism = new(int32(3)), new(int32(3))
	create(t, w.c1, job)
	w.jobEnds(t, batchv1.JobComplete)
	out := w.kubectl(t, "logs", "-l", "batch.kubernetes.io/job-name=job")
	for i := range 3 {
		if want := fmt.Sprintf("JOB_COMPLETION_INDEX=%d\n", i); !strings.Contains(out, want) {
			t.Errorf("no pod has %s", want)
		}
	}
}

func TestAFinishedPodWhoseDelegateIsDeletedStaysFinished(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.job("print", "done"))
	w.jobEnds(t, batchv1.JobComplete)
	proxies, _, err := w.pods(t.Context(), w.c1)
	if err != nil || len(proxies) != 1 {
		t.Fatalf("listing the job's pods: %d, %v", len(proxies), err)
	}
	where, delegate := w.delegateOf(t, &proxies[0])
	if err := where.Delete(t.Context(), delegate); err != nil {
		t.Fatal(err)
	}
	gone(t, where, delegate)
	create(t, w.c1, w.webServer(1)) // the test waits for a change that follows the deletion
	eventually(t, "the web server", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := w.c1.List(
			ctx,
			pods,
			client.InNamespace(w.namespace),
			client.MatchingLabels{"app": "web"},
		); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if ready(&pod) {
				return nil
			}
		}
		return fmt.Errorf("it is not ready")
	})
	job := w.jobEnds(t, batchv1.JobComplete)
	if job.Status.Succeeded != 1 || job.Status.Failed != 0 {
		t.Errorf(
			"the job counts %d succeeded and %d failed pods, want 1 and 0",
			job.Status.Succeeded,
			job.Status.Failed,
		)
	}
	w.reaches(t, proxies[0].Name, corev1.PodSucceeded)
}

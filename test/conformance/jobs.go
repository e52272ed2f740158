package main

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// jobActions run Jobs.
func jobActions() []*testCase {
	const topic = "Jobs and CronJobs"
	done := "{.status.conditions[?(@.type==\"Complete\")].status}=True"
	failed := "{.status.conditions[?(@.type==\"Failed\")].status}=True"
	return []*testCase{
		inShort(action(topic, "job", "a Job completes", jobOf(done, newJob("print", "done")))),
		action(topic, "job-parallel", "four completions, two at a time",
			jobOf(done, manyTimes(newJob("print", "done")))),
		inShort(action(topic, "job-fails", "a Job fails at its limit", jobOf(failed, limited(newJob("exit", "3"), 1)))),
		action(topic, "job-on-failure", "a Job whose container is restarted", jobOf(done, retried())),
		action(topic, "job-indexed", "a Job with indexes", indexedJob),
		action(topic, "job-failure-policy", "an exit code that fails the Job",
			jobOf(failed, failingAt(batchv1.PodFailurePolicyActionFailJob))),
		action(topic, "job-failure-ignored", "an exit code that does not count", ignoredFailure),
		action(topic, "job-disruption-ignored", "an eviction that does not count as a failure", ignoredDisruption),
		action(topic, "job-success-policy", "a Job that succeeds with one index", jobOf(done, succeedingEarly())),
		action(topic, "job-deadline", "a Job with a deadline", jobOf(failed, shortLived())),
		action(topic, "job-suspend", "a Job is suspended and resumed", suspend),
		action(topic, "job-ttl", "a finished Job goes with its pods", timeToLive),
		action(topic, "cronjob", "a Job from a CronJob", cronJob),
		action(topic, "cronjob-schedule", "a CronJob begins a Job when it is time", scheduledJob),
	}
}

func newJob(args ...string) *batchv1.Job {
	t := template("job", args...)
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: t}}
}

// jobOf runs a Job until it has a condition, and notes its status.
func jobOf(until string, job *batchv1.Job) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.create(ctx, job.DeepCopy()); err != nil {
			return err
		}
		return s.jobEnds(ctx, until)
	}
}

func (s *side) jobEnds(ctx context.Context, until string) error {
	job := &batchv1.Job{}
	if err := s.reachObject(ctx, job, "job", until); err != nil {
		return err
	}
	t := tree{
		"succeeded": fmt.Sprint(job.Status.Succeeded), "failed": fmt.Sprint(job.Status.Failed),
		"indexes": job.Status.CompletedIndexes,
	}
	for _, c := range job.Status.Conditions {
		t["condition "+string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	s.note("status", t)
	return nil
}

func manyTimes(job *batchv1.Job) *batchv1.Job {
	job.Spec.Completions, job.Spec.Parallelism = new(int32(4)), new(int32(2))
	return job
}

func limited(job *batchv1.Job, limit int32) *batchv1.Job {
	job.Spec.BackoffLimit = &limit
	return job
}

func indexed(job *batchv1.Job) *batchv1.Job {
	job.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	job.Spec.Completions, job.Spec.Parallelism = new(int32(3)), new(int32(3))
	return job
}

func retried() *batchv1.Job {
	job := newJob("fail", "/data/runs", "1", "3", "exit")
	pod := &corev1.Pod{Spec: job.Spec.Template.Spec}
	job.Spec.Template.Spec = withData(pod).Spec
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	return job
}

func failingAt(act batchv1.PodFailurePolicyAction) *batchv1.Job {
	job := limited(newJob("exit", "42"), 3)
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: act, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
		},
	}}}
	return job
}

// succeedingEarly has one pod that succeeds at once. The others would run for minutes.
func succeedingEarly() *batchv1.Job {
	job := indexed(newJob("sleep", "$(JOB_COMPLETION_INDEX)00s"))
	job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: new("0")}}}
	return job
}

func shortLived() *batchv1.Job {
	job := newJob("sleep", "infinity")
	job.Spec.ActiveDeadlineSeconds = new(int64(5))
	return job
}

func indexedJob(ctx context.Context, s *side) error {
	if err := jobOf("{.status.conditions[?(@.type==\"Complete\")].status}=True",
		indexed(newJob("env", "JOB_COMPLETION_INDEX", "HOSTNAME")))(ctx, s); err != nil {
		return err
	}
	for _, index := range []string{"0", "1", "2"} {
		s.try(ctx, "index "+index, "logs", "-l", batchv1.JobCompletionIndexAnnotation+"="+index)
	}
	return nil
}

// ignoredFailure waits until a pod failed and was replaced, without a failure that counts.
func ignoredFailure(ctx context.Context, s *side) error {
	if err := s.create(ctx, failingAt(batchv1.PodFailurePolicyActionIgnore)); err != nil {
		return err
	}
	return s.await(ctx, "a second pod", func(ctx context.Context) error {
		pods, err := s.pods(ctx)
		if err != nil {
			return err
		}
		if len(pods) < 2 {
			return fmt.Errorf("there are %d", len(pods))
		}
		job := &batchv1.Job{}
		err = s.get(ctx, "job", job)
		s.note("failed", fmt.Sprint(job.Status.Failed))
		return err
	})
}

// undisrupted returns a Job that may not fail, and that does not count evictions. Its pods need ten seconds to end
// well. An eviction gives them one second.
func undisrupted() *batchv1.Job {
	job := limited(newJob("serve", "--drain", "10s"), 0)
	probed(&job.Spec.Template.Spec)
	job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}}}
	return job
}

// ignoredDisruption evicts the pod of a Job, and lets the next one end.
func ignoredDisruption(ctx context.Context, s *side) error {
	if err := s.create(ctx, undisrupted()); err != nil {
		return err
	}
	evicted, err := s.onlyReady(ctx, "app=job")
	if err != nil {
		return err
	}
	if err := s.c.SubResource("eviction").Create(ctx, evicted, &policyv1.Eviction{}); err != nil {
		return fmt.Errorf("evicting: %w", err)
	}
	if err := s.gone(ctx, evicted); err != nil {
		return err
	}
	next, err := s.onlyReady(ctx, "app=job")
	if err != nil {
		return err
	}
	s.try(ctx, "end", "exec", next.Name, "--", program, "kill", "1")
	return s.jobEnds(ctx, `{.status.conditions[?(@.type=="Complete")].status}=True`)
}

func suspend(ctx context.Context, s *side) error {
	if err := s.create(ctx, newJob("sleep", "infinity")); err != nil {
		return err
	}
	job := &batchv1.Job{}
	if err := s.reachObject(ctx, job, "job", "{.status.ready}=1"); err != nil {
		return err
	}
	s.try(ctx, "suspend", "patch", "job", "job", "-p", `{"spec":{"suspend":true}}`)
	if err := s.reachObject(ctx, job, "job", `{.status.conditions[?(@.type=="Suspended")].status}=True`); err != nil {
		return err
	}
	if err := s.ready(ctx, 0, "app=job"); err != nil {
		return err
	}
	s.try(ctx, "resume", "patch", "job", "job", "-p", `{"spec":{"suspend":false}}`)
	return s.reachObject(ctx, job, "job", "{.status.ready}=1")
}

func timeToLive(ctx context.Context, s *side) error {
	job := newJob("print", "done")
	job.Spec.TTLSecondsAfterFinished = new(int32(1))
	if err := s.create(ctx, job); err != nil {
		return err
	}
	if err := s.gone(ctx, job); err != nil {
		return err
	}
	return s.ready(ctx, 0, "app=job")
}

// cronJob starts a Job by hand, because the next minute is far.
func cronJob(ctx context.Context, s *side) error {
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "cron"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("print", "done").Spec},
	}}
	if err := s.create(ctx, cron); err != nil {
		return err
	}
	s.try(ctx, "create", "create", "job", "job", "--from=cronjob/cron")
	return s.jobEnds(ctx, `{.status.conditions[?(@.type=="Complete")].status}=True`)
}

// scheduledJob has a CronJob of each minute, and waits for its first Job.
func scheduledJob(ctx context.Context, s *side) error {
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "cron"}, Spec: batchv1.CronJobSpec{
		Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("print", "done").Spec},
	}}
	if err := s.create(ctx, cron); err != nil {
		return err
	}
	jobs := &batchv1.JobList{}
	err := s.await(ctx, "the first Job to complete", func(ctx context.Context) error {
		if err := s.c.List(ctx, jobs, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		if len(jobs.Items) == 0 || jobs.Items[0].Status.Succeeded == 0 {
			return fmt.Errorf("there are %d Jobs", len(jobs.Items))
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.note("job", tree{"scheduled by": metav1.GetControllerOf(&jobs.Items[0]).Name})
	s.try(ctx, "delete", "delete", "cronjob", "cron", "--cascade=foreground", "--timeout=2m") // No other one begins.
	return nil
}

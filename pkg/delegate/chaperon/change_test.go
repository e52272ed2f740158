package chaperon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// revision makes a PodChaperon that has an image, a label and a number of changes.
func revision(number int64, image, label string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Labels = map[string]string{"tier": label, v1alpha1.LabelParentClusterID: "c1"}
		c.Annotations = map[string]string{
			v1alpha1.AnnotationRevision: translate.Revision{Number: number, Fingerprint: "f"}.String(),
		}
		c.Spec.Containers = []corev1.Container{{Name: "app", Image: image}}
	}
}

// requesting gives the container of a PodChaperon CPUs, which Kubernetes can resize.
func requesting(cpus string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	}
}

// beginning gives a PodChaperon an init container.
func beginning(image, cpus string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Spec.InitContainers = []corev1.Container{{Name: "init", Image: image, Resources: *ofCPU(cpus)}}
	}
}

// requestingTogether gives a PodChaperon CPUs for all containers together.
func requestingTogether(cpus string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Spec.Resources = ofCPU(cpus) }
}

func ofCPU(cpus string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)},
	}
}

// changing is a stage that counts the requests that change the delegate, and may refuse them.
type changing struct {
	*stage

	clock *clocktesting.FakePassiveClock
	// patches are the requests: the subresource, or "pod", with "dry run" before it.
	patches []string
	// statuses counts the writes of the PodChaperon's status.
	statuses int
	// refuse returns the answer to a request, or nil.
	refuse func(request string, pod *corev1.Pod) error
	// stored changes the pod as a webhook does that treats dry runs differently.
	stored func(*corev1.Pod)
	// cachedPod is the delegate as the cache shows it, if not as it is.
	cachedPod *corev1.Pod
}

// newChanging has a delegate of the first revision, and a PodChaperon that was changed since.
func newChanging(t *testing.T, delegate *corev1.Pod, objects ...client.Object) *changing {
	t.Helper()
	s := &changing{stage: newStage(t, append(objects, delegate)...)}
	s.clock = clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	s.reconciler.clock = s.clock
	s.reconciler.client = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if pod, ok := o.(*corev1.Pod); ok && s.cachedPod != nil {
				s.cachedPod.DeepCopyInto(pod)
				return nil
			}
			return s.get(ctx, c, key, o, options...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			return s.patch(ctx, "pod", o, patch, (&client.PatchOptions{}).ApplyOptions(options))
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			if sub == "status" {
				s.statuses++
				return c.Status().Patch(ctx, o, patch, options...)
			}
			return s.patch(ctx, sub, o, patch, &(&client.SubResourcePatchOptions{}).ApplyOptions(options).PatchOptions)
		},
	})
	return s
}

func (s *changing) patch(
	ctx context.Context, request string, o client.Object, patch client.Patch, options *client.PatchOptions,
) error {
	dry := len(options.DryRun) > 0
	if dry {
		request = "dry run " + request
	}
	s.patches = append(s.patches, request)
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return errors.New("not a pod")
	}
	if s.refuse != nil {
		if err := s.refuse(request, pod); err != nil {
			return err
		}
	}
	if dry { // The fake API server shows no result.
		return s.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	}
	if err := s.client.Patch(ctx, pod, patch); err != nil {
		return err
	}
	if s.stored != nil {
		s.stored(pod)
	}
	return nil
}

func (s *changing) live() *corev1.Pod {
	s.t.Helper()
	pod := delegate(corev1.PodStatus{})
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

func (s *changing) expectPatches(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.patches, want) {
		s.t.Errorf("requests %v, want %v", s.patches, want)
	}
	s.patches = nil
}

// running is a delegate of a PodChaperon, with what others changed in it.
func running(of *v1alpha1.PodChaperon, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := translate.Delegate(of)
	pod.UID, pod.Status = "delegate", corev1.PodStatus{Phase: corev1.PodRunning}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func old(changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	return of(revision(0, "v1", "web"), changes)
}

func changed(changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	return of(revision(1, "v2", "api"), changes)
}

func of(revision func(*v1alpha1.PodChaperon), changes []func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	c := chaperon(corev1.PodStatus{Phase: corev1.PodRunning}, revision)
	for _, change := range changes {
		change(c)
	}
	return c
}

func TestAChangedPodChaperonChangesItsDelegate(t *testing.T) {
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		rules    []client.Object
		want     []string
	}{
		"image and label":                {changed(), nil, []string{"pod"}},
		"resources, too":                 {changed(requesting("2")), nil, []string{"resize", "pod"}},
		"resources of an init container": {changed(beginning("v1", "2")), nil, []string{"resize", "pod"}},
		"an image of an init container":  {changed(beginning("v2", "1")), nil, []string{"pod"}},
		"resources of the pod":           {changed(requestingTogether("4")), nil, []string{"resize", "pod"}},
		"a debugger":                     {changed(debugged), nil, []string{"ephemeralcontainers", "pod"}},
		"a label alone": {
			chaperon(corev1.PodStatus{}, revision(1, "v1", "api")), nil, []string{"pod"},
		},
		"within the rules": {
			changed(), []client.Object{baselineOnly()}, []string{"dry run pod", "pod"},
		},
		"without rules": {changed(), []client.Object{clusterSource(nil)}, []string{"pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := old(requesting("1"), beginning("v1", "1"), requestingTogether("3"))
			s := newChanging(t, running(before), append(test.rules, test.chaperon)...)
			s.mustReconcile()
			s.expectPatches(test.want...)
			pod := s.live()
			if want := test.chaperon.Spec.InitContainers; want != nil {
				if diff := cmp.Diff(want, pod.Spec.InitContainers); diff != "" {
					t.Errorf("init containers (-want +got):\n%s", diff)
				}
			}
			if want := test.chaperon.Spec.Resources; want != nil {
				if diff := cmp.Diff(want, pod.Spec.Resources); diff != "" {
					t.Errorf("resources (-want +got):\n%s", diff)
				}
			}
			if image := test.chaperon.Spec.Containers[0].Image; pod.Spec.Containers[0].Image != image {
				t.Errorf("image %q, want %q", pod.Spec.Containers[0].Image, image)
			}
			if pod.Labels["tier"] != "api" || translate.RevisionOf(pod).Number != 1 {
				t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
			}
			if len(s.recorder.Events) > 0 {
				t.Errorf("event %q", <-s.recorder.Events)
			}
			s.mustReconcile()
			s.expectPatches()
		})
	}
}

func TestEachChangeWritesTheStatusOnce(t *testing.T) {
	s := newChanging(t, running(old()), changed())
	for number := int64(1); number <= 3; number++ {
		c := s.chaperon()
		revision(number, "v2", fmt.Sprint(number))(c)
		if err := s.client.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s.mustReconcile() // It changes the delegate, whose event follows.
		s.mustReconcile()
		if said := changesCondition(&s.chaperon().Status); said == nil || said.ObservedGeneration != number {
			t.Errorf("change %d: condition %v", number, said)
		}
		if s.statuses > int(number) {
			t.Errorf("%d writes of the status for %d changes", s.statuses, number)
		}
	}
}

func debugged(c *v1alpha1.PodChaperon) {
	c.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}},
	}
}

func TestWhatDoesNotChangeADelegate(t *testing.T) {
	ends := func(c *v1alpha1.PodChaperon) { deleted(c) }
	terminating := func(p *corev1.Pod) { terminatingPod(p); p.Finalizers = []string{"example.org/hold"} }
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		delegate *corev1.Pod
		cached   *corev1.Pod
	}{
		"nothing was changed":                      {chaperon: old(), delegate: running(old())},
		"the PodChaperon ends":                     {chaperon: changed(ends), delegate: running(old())},
		"the delegate ends":                        {chaperon: changed(), delegate: running(old(), terminating)},
		"the PodChaperon cannot be read":           {chaperon: changed(unreadable), delegate: running(old())},
		"the cache does not show the change yet":   {changed(), running(changed()), running(old())},
		"the cache shows an earlier delegate":      {changed(), running(old(), ofAnother), running(old())},
		"another one took the pod":                 {changed(), running(old(), notOurs), running(old())},
		"the delegate ends, and the cache lags":    {changed(), running(old(), terminating), running(old())},
		"the source went back to an earlier state": {old(), running(changed()), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChanging(t, test.delegate, test.chaperon)
			s.cachedPod = test.cached
			if test.chaperon.Unreadable != "" { // Only a cache says so.
				s.cached = test.chaperon
			}
			s.mustReconcile()
			s.expectPatches()
		})
	}
}

func ofAnother(p *corev1.Pod) { p.UID = "another" }

func TestARefusedChangeIsShownAndTriedAgain(t *testing.T) {
	s := newChanging(t, running(old()), changed())
	s.refuse = func(string, *corev1.Pod) error { return forbidden("no image v2") }
	reconcile := func(want time.Duration, patches ...string) *corev1.PodCondition {
		t.Helper()
		result, err := s.reconcile()
		if err != nil || result.RequeueAfter != want {
			t.Fatalf("result %v, error %v, want %s", result, err, want)
		}
		s.expectPatches(patches...)
		return changesCondition(&s.chaperon().Status)
	}
	refused := []string{"pod", "pod", "pod"} // Spec and metadata together, and then each by itself.
	first := reconcile(firstChangeRetry, refused...)
	if first == nil || first.Status != corev1.ConditionFalse || first.Reason != v1alpha1.ReasonChangesRefused ||
		first.ObservedGeneration != 1 || strings.Count(first.Message, "no image v2") != 2 {
		t.Fatalf("condition %v", first)
	}
	s.expectEvent(reasonChangeRefused)
	s.clock.SetTime(s.clock.Now().Add(firstChangeRetry - time.Second))
	reconcile(time.Second)
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	again := reconcile(2*firstChangeRetry, refused...)
	if !again.LastTransitionTime.Equal(&first.LastTransitionTime) || len(s.recorder.Events) > 0 {
		t.Errorf("the refusal is new each time: %v, %d events", again, len(s.recorder.Events))
	}

	c := s.chaperon()
	revision(2, "v3", "api")(c)
	if err := s.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	next := reconcile(firstChangeRetry, refused...)
	if next.ObservedGeneration != 2 || next.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("another change: %v", next)
	}
	s.expectEvent(reasonChangeRefused)

	s.refuse = nil
	s.clock.SetTime(s.clock.Now().Add(firstChangeRetry))
	reconcile(0, "pod")
	if image := s.live().Spec.Containers[0].Image; image != "v3" {
		t.Errorf("image %q", image)
	}
	if len(s.reconciler.retries.byKey) > 0 {
		t.Error("a change that succeeded is remembered")
	}
}

// TestARefusedChangeOfAnAnnotatedDelegateIsWrittenOnce has a delegate whose annotations are in the status, too.
func TestARefusedChangeOfAnAnnotatedDelegateIsWrittenOnce(t *testing.T) {
	added := "multicluster.admiralty.io/cached-added-annotations" // As in the cache, where a pod has no restart policy.
	s := newChanging(t, running(old(), func(p *corev1.Pod) {
		p.Annotations[added], p.Spec.RestartPolicy = "the target's", ""
	}), changed())
	s.refuse = func(string, *corev1.Pod) error { return forbidden("no image v2") }
	s.mustReconcile()
	first := s.statuses
	for pause := firstChangeRetry; pause < lastChangeRetry; pause *= 2 {
		s.clock.SetTime(s.clock.Now().Add(pause))
		s.mustReconcile()
	}
	if again := s.statuses - first; again > 0 {
		t.Errorf("%d writes more of the status %v", again, s.chaperon().Status.Conditions)
	}
	if translate.PodCondition(s.chaperon().Status.Conditions, v1alpha1.ConditionAnnotations) == nil {
		t.Error("the status has no annotations")
	}
}

func TestARefusedChangeIsShownBeforeTheDelegateHasAStatus(t *testing.T) {
	fresh := running(old())
	fresh.Status = corev1.PodStatus{Phase: corev1.PodPending}
	s := newChanging(t, fresh, chaperon(corev1.PodStatus{}, revision(1, "v2", "api")))
	s.refuse = func(string, *corev1.Pod) error { return forbidden("no image v2") }
	s.mustReconcile()
	if c := changesCondition(&s.chaperon().Status); c == nil || c.Status != corev1.ConditionFalse {
		t.Errorf("condition %v", c)
	}
}

func TestOnePartThatIsRefusedDoesNotKeepTheOthersBack(t *testing.T) {
	s := newChanging(t, running(old(requesting("1"))), changed(requesting("2")))
	s.refuse = func(request string, _ *corev1.Pod) error {
		if request == resizeSubresource {
			return lacking()
		}
		return nil
	}
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != firstChangeRetry {
		t.Errorf("result %v, error %v", result, err)
	}
	s.expectPatches("resize", "pod")
	pod := s.live()
	if got := pod.Spec.Containers[0]; got.Image != "v2" || got.Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("container %v", got)
	}
	if pod.Labels["tier"] != "api" {
		t.Errorf("labels %v", pod.Labels)
	}
	if c := changesCondition(&s.chaperon().Status); c == nil || !strings.Contains(c.Message, "lacks the subresource") {
		t.Errorf("condition %v", c)
	}
}

func TestASpecOrMetadataThatIsRefusedDoesNotKeepTheOtherBack(t *testing.T) {
	for name, test := range map[string]struct {
		refused      int // of the three requests, besides the first one
		image, label string
		revision     int64
	}{
		"the spec is refused":     {1, "v1", "api", 0},
		"the metadata is refused": {2, "v2", "web", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChanging(t, running(old()), changed())
			requests := -1
			s.refuse = func(string, *corev1.Pod) error {
				if requests++; requests == 0 || requests == test.refused {
					return forbidden("this part")
				}
				return nil
			}
			if result, err := s.reconcile(); err != nil || result.RequeueAfter != firstChangeRetry {
				t.Errorf("result %v, error %v", result, err)
			}
			s.expectPatches("pod", "pod", "pod")
			pod := s.live()
			if pod.Spec.Containers[0].Image != test.image || pod.Labels["tier"] != test.label ||
				translate.RevisionOf(pod).Number != test.revision {
				t.Errorf("containers %v, labels %v, annotations %v", pod.Spec.Containers, pod.Labels, pod.Annotations)
			}
			c := changesCondition(&s.chaperon().Status)
			if c == nil || strings.Count(c.Message, "this part") != 1 {
				t.Errorf("condition %v", c)
			}
		})
	}
}

func TestAChangeThatFailsOtherwise(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		retried bool
	}{
		"the delegate is gone":           {err: apierrors.NewNotFound(pods, "web")},
		"the delegate itself is missing": {err: lacking()},
		"another one changed it": {
			err: apierrors.NewConflict(pods, "web", errors.New("changed")), retried: true,
		},
		"the API server is down": {err: errors.New("connection refused"), retried: true},
	} {
		t.Run(name, func(t *testing.T) {
			// The pod itself is asked for: a label is all that changes.
			s := newChanging(t, running(old()), chaperon(corev1.PodStatus{}, revision(1, "v1", "api")))
			s.refuse = func(string, *corev1.Pod) error { return test.err }
			result, err := s.reconcile()
			if (err != nil) != test.retried || result.RequeueAfter != 0 {
				t.Errorf("result %v, error %v", result, err)
			}
			if c := changesCondition(&s.chaperon().Status); c != nil {
				t.Errorf("condition %v", c)
			}
		})
	}
	t.Run("no such delegate for a subresource", func(t *testing.T) {
		s := newChanging(t, running(old(requesting("1"))), changed(requesting("2")))
		s.refuse = func(string, *corev1.Pod) error { return apierrors.NewNotFound(pods, "web") }
		if result, err := s.reconcile(); err != nil || result.RequeueAfter != 0 {
			t.Errorf("result %v, error %v", result, err)
		}
		s.expectPatches("resize")
	})
}

func TestAChangeThatBreaksARule(t *testing.T) {
	privileged := func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	}
	t.Run("in the dry run is refused", func(t *testing.T) {
		s := newChanging(t, running(old(), privileged), changed(), baselineOnly())
		s.mustReconcile()
		s.expectPatches("dry run pod", "dry run pod", "dry run pod")
		if c := changesCondition(&s.chaperon().Status); c == nil || !strings.Contains(c.Message, "privileged=true") {
			t.Errorf("condition %v", c)
		}
		if image := s.live().Spec.Containers[0].Image; image != "v1" {
			t.Errorf("image %q", image)
		}
	})
	t.Run("may be refused by the target after the dry run", func(t *testing.T) {
		s := newChanging(t, running(old()), changed(), baselineOnly())
		s.refuse = func(request string, _ *corev1.Pod) error {
			if request == "pod" {
				return forbidden("quota")
			}
			return nil
		}
		s.mustReconcile()
		if c := changesCondition(&s.chaperon().Status); c == nil || !strings.Contains(c.Message, "quota") {
			t.Errorf("condition %v", c)
		}
		if image := s.live().Spec.Containers[0].Image; image != "v1" {
			t.Errorf("image %q", image)
		}
	})
	t.Run("only when it is stored is the end of the delegate", func(t *testing.T) {
		s := newChanging(t, running(old()), changed(), baselineOnly())
		s.stored = privileged
		s.mustReconcile()
		s.expectNoDelegate()
	})
}

func TestValuesOfTheTargetAreKept(t *testing.T) {
	s := newChanging(t, running(old(), func(p *corev1.Pod) { p.Labels["team"] = "ops" }),
		changed(func(c *v1alpha1.PodChaperon) { c.Labels["team"] = "dev" }))
	s.mustReconcile()
	is := s.live()
	if team, image := is.Labels["team"], is.Spec.Containers[0].Image; team != "ops" || image != "v2" {
		t.Errorf("team %q, image %q", team, image)
	}
	said := changesCondition(&s.chaperon().Status)
	if said == nil || said.Status != corev1.ConditionFalse || !strings.Contains(said.Message, "stay: labels/team") {
		t.Errorf("condition %v", said)
	}
	s.expectEvent(reasonChangeRefused)

	delete(is.Labels, "team") // The target gives way.
	if err := s.client.Update(t.Context(), is); err != nil {
		t.Fatal(err)
	}
	s.clock.SetTime(s.clock.Now().Add(firstChangeRetry))
	s.mustReconcile()
	is = s.live()
	if team, revision := is.Labels["team"], translate.RevisionOf(is).Number; team != "dev" || revision != 1 {
		t.Errorf("team %q, revision %d", team, revision)
	}
}

var pods = schema.GroupResource{Resource: "pods"}

func forbidden(why string) error { return apierrors.NewForbidden(pods, "web", errors.New(why)) }

// lacking is the answer of an API server that does not know a path.
func lacking() error {
	err := apierrors.NewNotFound(pods, "web")
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}}
	return err
}

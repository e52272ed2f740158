package placement

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

func TestWhatAPodNeedsDecidesWhetherItsDelegateIsMade(t *testing.T) {
	database := needs.Ref{Resource: needs.Secrets, Name: "db"}
	missing := &needs.MissingError{Namespace: "default", Refs: []needs.Ref{database}}
	for name, test := range map[string]struct {
		ensured error
		err     string
		leftOut string
		refusal Refusal
	}{
		"the object is in the target": {},
		"the object is missing in the source": {
			ensured: missing, err: `Secret "db" does not exist in namespace "default": the pod cannot start without`,
		},
		"the target does not take the object": {
			ensured: &needs.RefusedError{Ref: database, Reason: "exists there"}, err: `c1: Secret "db" exists there`,
			leftOut: `Secret "db" exists there`, refusal: Forbidden,
		},
		"a quota of the target has no room for the object": {
			ensured: &needs.RefusedError{Ref: database, Reason: "is refused", Class: apierror.QuotaExceeded},
			err:     `c1: Secret "db" is refused`, leftOut: `Secret "db" is refused`, refusal: QuotaFull,
		},
		"the rights to write the object have not arrived yet": {
			ensured: &needs.RefusedError{Ref: database, Reason: "is refused", Class: apierror.RightsMissing},
			err:     `c1: Secret "db" is refused`, leftOut: `Secret "db" is refused`, refusal: RightsMissing,
		},
		"the target does not answer": {
			ensured: errors.New("slow"), err: "bringing what the pod needs to c1: slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.ensure = func(context.Context, *corev1.Pod, *engage.Target) error { return test.ensured }
			created := 0
			at := w.engage(t, "c1", interceptor.Funcs{
				Create: func(
					ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
				) error {
					created++
					return c.Create(ctx, o, options...)
				},
			})
			_, err := w.ensureChaperon(t.Context(), newPod("p", nil), at, nil)
			if got := message(err); got != test.err {
				t.Errorf("error is %q, want %q", got, test.err)
			}
			if made := created > 0; made != (test.ensured == nil) {
				t.Errorf("a PodChaperon was created: %t", made)
			}
			var refused *RefusedError
			if errors.As(err, &refused) != (test.leftOut != "") || refused != nil && refused.Reason != test.leftOut {
				t.Errorf("the target refused the pod: %v, want %q", refused, test.leftOut)
			}
			if refused != nil && refused.Refusal != test.refusal {
				t.Errorf("refusal %d, want %d", refused.Refusal, test.refusal)
			}
		})
	}
}

// TestARequestThatWasNotAnsweredIsCarriedOutLaterOrNever has a pod that is scheduled again after its first attempt.
func TestARequestThatWasNotAnsweredIsCarriedOutLaterOrNever(t *testing.T) {
	const slow = "Timeout: slow"
	for name, test := range map[string]struct {
		late    bool // the target can carry out the request no more
		arrived bool // it has
		ends    bool // and the delegate is ending
		down    bool // the target answers no question
		err     string
		held    bool
	}{
		"it has been carried out": {arrived: true, held: true},
		"it has been carried out, and the delegate is ending": {
			arrived: true, ends: true, held: true,
			err: "creating the PodChaperon in c1: the delegate is being withdrawn",
		},
		"it may still be carried out": {
			held: true,
			err:  "creating the PodChaperon in c1: it has not answered, and may still create the PodChaperon",
		},
		"it was lost": {
			late: true, err: "c1: creating the PodChaperon: the request was not answered, nor carried out",
		},
		"nobody knows": {
			late: true, down: true, held: true,
			err: "creating the PodChaperon in c1: looking whether the PodChaperon is there: Timeout: slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod, created, server := newWorld(), newPod("p", nil), 0, &lateServer{}
			var later *v1alpha1.PodChaperon
			at := w.engage(t, "c1", interceptor.Funcs{
				Create: func(
					_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption,
				) error {
					created++
					later, _ = o.DeepCopyObject().(*v1alpha1.PodChaperon)
					return apierrors.NewTimeoutError("slow", 0)
				},
				Get: func(
					_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption,
				) error {
					return server.get(later, o)
				},
			})
			_, err := w.ensureChaperon(t.Context(), pod, at, nil)
			if want := "creating the PodChaperon in c1: it may still be created: " + slow; message(err) != want {
				t.Errorf("error is %q, want %q", message(err), want)
			}
			if w.Delegates.Holder("p") != at {
				t.Error("the pod may go elsewhere")
			}
			w.clock.Step(carriedOutWithin - 1)
			if test.late {
				w.clock.Step(1)
			}
			if server.down = test.down; test.arrived {
				later.UID = "c"
			}
			if test.ends {
				toEnd(later)
			}
			chaperon, err := w.ensureChaperon(t.Context(), pod, at, nil)
			if message(err) != test.err || (chaperon != nil) != (test.err == "") || created != 1 {
				t.Errorf("after %d requests: got %v and error %q, want %q", created, chaperon, message(err), test.err)
			}
			if held := w.Delegates.Holder("p") == at; held != test.held {
				t.Errorf("the target holds the pod: %t, want %t", held, test.held)
			}
		})
	}
}

// lateServer is an API server that carries out a request to create a PodChaperon late. The PodChaperon has a UID then.
type lateServer struct{ down bool }

func (s *lateServer) get(later *v1alpha1.PodChaperon, into client.Object) error {
	switch {
	case s.down:
		return apierrors.NewTimeoutError("slow", 0)
	case later.UID == "":
		return apierrors.NewNotFound(podChaperons, "web")
	}
	later.DeepCopyInto(into.(*v1alpha1.PodChaperon))
	return nil
}

// TestAPodChaperonThatIsGoneIsCreatedAgain has one that was there, and that the cache never showed.
func TestAPodChaperonThatIsGoneIsCreatedAgain(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", interceptor.Funcs{})
	w.Delegates.noteUnseen(at, newChaperon("c", "p"))
	chaperon, err := w.ensureChaperon(t.Context(), newPod("p", nil), at, nil)
	if err != nil || chaperon == nil {
		t.Errorf("got %v, %v, want a new one", chaperon, err)
	}
}

func TestNothingIsBegunInATargetThatIsDisengaged(t *testing.T) {
	const disconnected = "placing the delegate in c1: it was disconnected"
	for name, test := range map[string]struct {
		during  string // when the target is disengaged
		created bool
		err     string
	}{
		"before the pod's needs are there": {
			during: "needs", err: "bringing what the pod needs to c1: it was disconnected",
		},
		"when the pod's needs are there":      {during: "the last need", err: disconnected},
		"while the PodChaperon is created":    {during: "create", created: true},
		"and the request has no answer":       {during: "lost", created: true, err: disconnected},
		"not while the target is still there": {created: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, created := newWorld(), false
			engagement, disengage := context.WithCancel(t.Context())
			w.ensure = func(ctx context.Context, _ *corev1.Pod, _ *engage.Target) error {
				switch test.during {
				case "needs":
					disengage()
					receive(t, "the end of the requests", ctx.Done())
					return context.Cause(ctx)
				case "the last need":
					disengage()
				}
				return nil
			}
			var at *Target
			at = w.engage(t, "c1", interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					created = true
					switch test.during {
					case "create":
						disengage()
						w.Delegates.ForgetTarget(at, nil)
					case "lost":
						disengage()
						w.Delegates.ForgetTarget(at, nil)
						return errors.New("slow")
					}
					return nil
				},
				Get: func(
					context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
				) error {
					return errors.New("slow")
				},
			})
			at.engagement = engagement
			_, err := w.ensureChaperon(t.Context(), newPod("p", nil), at, nil)
			if message(err) != test.err || created != test.created {
				t.Errorf("a PodChaperon was created: %t; error %q, want %q", created, message(err), test.err)
			}
			if held := w.Delegates.Holder("p") == at; held != (test.during == "") {
				t.Errorf("the pod waits for the target: %t", held)
			}
		})
	}
}

func TestATargetThatIsDisengagedHoldsNoPod(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", interceptor.Funcs{})
	engagement, disengage := context.WithCancel(t.Context())
	at.engagement = engagement
	disengage()
	w.Delegates.ForgetTarget(at, nil)
	w.Delegates.doubt("p", at, false)
	if holder := w.Delegates.Holder("p"); holder != nil {
		t.Errorf("the pod waits for %s", holder.Name())
	}
}

func TestWithoutAKeyNothingIsPlaced(t *testing.T) {
	w := newWorld()
	w.sign = func(proof.Claim) (string, error) { return "", errors.New("no key") }
	w.ensure = func(context.Context, *corev1.Pod, *engage.Target) error {
		t.Error("what the pod needs was copied")
		return nil
	}
	at := w.engage(t, "c1", interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			t.Error("a PodChaperon was created")
			return nil
		},
	})
	_, err := w.ensureChaperon(t.Context(), newPod("p", nil), at, nil)
	if want := "creating the PodChaperon in c1: no key"; message(err) != want || !errors.As(err, new(*CreateError)) {
		t.Errorf("error is %q (%T), want a CreateError %q", message(err), err, want)
	}
}

func TestAPodChaperonHasTheProofOfItsProxyAndTarget(t *testing.T) {
	w := newWorld()
	var claims []proof.Claim
	w.sign = func(claim proof.Claim) (string, error) {
		claims = append(claims, claim)
		return "signed", nil
	}
	pod, at := newPod("p", nil), w.engage(t, "c1", interceptor.Funcs{})
	chaperon, err := w.ensureChaperon(t.Context(), pod, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if chaperon.Annotations[v1alpha1.AnnotationProof] != "signed" {
		t.Errorf("the PodChaperon has the annotations %v, want the proof", chaperon.Annotations)
	}
	if diff := cmp.Diff([]proof.Claim{proof.ClaimOf(pod, at.Key)}, claims); diff != "" {
		t.Errorf("claims that were signed (-want +got):\n%s", diff)
	}
}

func TestAPodChaperonThatExistsIsGoneOnWithIfItIsThePods(t *testing.T) {
	forged := &gate.ForgedError{Kind: "PodChaperon", Namespace: "default", Name: "web", Reason: "a lie"}
	for name, test := range map[string]struct {
		found   *v1alpha1.PodChaperon
		get     error
		err     string
		refusal Refusal
		held    bool // by the target, whose cache does not show it
	}{
		"it is the pod's": {found: newChaperon("c", "p")},
		"it is the pod's and is being deleted": {
			found: newChaperon("c", "p", deleting), refusal: StillEnding, held: true,
			err: "c1: an earlier delegate of the pod is still being deleted there",
		},
		"it is the pod's and is to end": {
			found: newChaperon("c", "p", toEnd), refusal: StillEnding, held: true,
			err: "c1: an earlier delegate of the pod is still being deleted there",
		},
		"it is another pod's": {
			found: newChaperon("c", "q"), refusal: Forbidden,
			err: `c1: the PodChaperon "web-c" there belongs to another pod`,
		},
		"it is forged": {get: forged, refusal: Forbidden, err: "c1: " + forged.Error()},
		"it is gone in this moment": {
			get: apierrors.NewNotFound(podChaperons, "web"), refusal: CreateFailed,
			err: `c1: creating the PodChaperon: podchaperons "web" already exists`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return apierrors.NewAlreadyExists(podChaperons, "web")
				},
				Get: func(
					_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption,
				) error {
					if test.found != nil {
						test.found.DeepCopyInto(o.(*v1alpha1.PodChaperon))
					}
					return test.get
				},
			})
			got, err := w.ensureChaperon(t.Context(), newPod("p", nil), at, nil)
			if message(err) != test.err {
				t.Errorf("error is %q, want %q", message(err), test.err)
			}
			if err == nil && got.UID != test.found.UID {
				t.Errorf("got the PodChaperon %q, want %q", got.UID, test.found.UID)
			}
			if refused := (*RefusedError)(nil); errors.As(err, &refused) && refused.Refusal != test.refusal {
				t.Errorf("refusal %d, want %d", refused.Refusal, test.refusal)
			}
			if held := w.Delegates.Holder("p") == at; held != test.held {
				t.Errorf("the target holds the pod: %t, want %t", held, test.held)
			}
		})
	}
}

// TestARequestWithoutAnAnswerMayBeCarriedOutWhenAnotherPodsPodChaperonIsGone has a PodChaperon of the name that is
// another pod's.
func TestARequestWithoutAnAnswerMayBeCarriedOutWhenAnotherPodsPodChaperonIsGone(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewTimeoutError("slow", 0)
		},
		Get: func(
			_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption,
		) error {
			newChaperon("c", "q").DeepCopyInto(o.(*v1alpha1.PodChaperon))
			return nil
		},
	})
	_, err := w.ensureChaperon(t.Context(), newPod("p", nil), at, nil)
	want := "creating the PodChaperon in c1: it may still be created: Timeout: slow"
	if message(err) != want {
		t.Errorf("error is %q, want %q", message(err), want)
	}
	if w.Delegates.Holder("p") != at {
		t.Error("the pod may go elsewhere")
	}
}

func TestAPodChaperonAsksForFencingOnlyIfTheSourceIsHeardOf(t *testing.T) {
	confirms := func(context.Context) error { return nil }
	fenced := func(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationFenceAfter] = "120" }
	off := func(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationFenceAfter] = "" }
	byDefault := &v1alpha1.PlacementPolicy{FenceAfterSeconds: new(int32(90))}
	for name, test := range map[string]struct {
		change  func(*corev1.Pod)
		policy  *v1alpha1.PlacementPolicy
		target  func(*Target)
		want    string
		fence   time.Duration
		problem string
	}{
		"nobody asks":             {},
		"the pod asks":            {change: fenced, want: "120", fence: 2 * time.Minute},
		"the target asks":         {policy: byDefault, want: "90", fence: 90 * time.Second},
		"the pod turns it off":    {change: off, policy: byDefault},
		"the target has no Lease": {fenced, nil, func(t *Target) { t.Confirms = nil }, "", 0, "no Lease"},
		"an earlier version is there": {
			fenced, nil, func(t *Target) { t.SetFences(false) }, "120", 2 * time.Minute, "fences no delegates",
		},
		"the target is the source itself": {change: fenced, target: func(t *Target) { t.Itself = true }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", interceptor.Funcs{})
			at.Confirms = confirms
			at.SetFences(true)
			if test.policy != nil {
				w.registry.SetPolicy(at.Target, test.policy)
			}
			if test.target != nil {
				test.target(at)
			}
			pod := newPod("p", nil)
			if test.change != nil {
				test.change(pod)
			}
			chaperon, err := w.ensureChaperon(t.Context(), pod, at, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := chaperon.Annotations[v1alpha1.AnnotationFenceAfter]; got != test.want {
				t.Errorf("the PodChaperon asks for %q, want %q", got, test.want)
			}
			w.Delegates.Seen(at, chaperon)
			fence, problem, err := w.Delegates.Fenced(at, pod)
			if err != nil {
				t.Fatal(err)
			}
			if fence != test.fence || !strings.Contains(problem, test.problem) ||
				(problem != "") != (test.problem != "") {
				t.Errorf("fenced after %s, problem %q", fence, problem)
			}
		})
	}
}

func TestAPodChaperonOfAnEarlierVersionIsNotFenced(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", interceptor.Funcs{})
	at.Confirms = func(context.Context) error { return nil }
	at.SetFences(true)
	pod := newPod("p", nil)
	chaperon, err := w.ensureChaperon(t.Context(), pod, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Delegates.Seen(at, chaperon)
	pod.Annotations[v1alpha1.AnnotationFenceAfter] = "60"
	fence, problem, err := w.Delegates.Fenced(at, pod)
	if err != nil || fence != 0 || !strings.Contains(problem, "without the annotation") {
		t.Errorf("fenced after %s, problem %q, error %v", fence, problem, err)
	}
}

func TestDelegatesKeepLabelsAsTheTargetOrElseTheManagerSays(t *testing.T) {
	for name, test := range map[string]struct {
		manager bool
		target  *bool
		kept    bool
	}{
		"neither":                         {},
		"the manager":                     {manager: true, kept: true},
		"the target":                      {target: ptr.To(true), kept: true},
		"the target, against the manager": {manager: true, target: ptr.To(false)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.keepLabels = test.manager
			at := w.engage(t, "c1", interceptor.Funcs{})
			w.registry.SetPolicy(at.Target, &v1alpha1.PlacementPolicy{KeepLabels: test.target})
			pod := newPod("p", nil)
			pod.Labels = map[string]string{"app": "web"}
			chaperon, err := w.ensureChaperon(t.Context(), pod, at, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, kept := chaperon.Labels["app"]; kept != test.kept {
				t.Errorf("labels %v: the label app is kept: %t, want %t", chaperon.Labels, kept, test.kept)
			}
		})
	}
}

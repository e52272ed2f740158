package feedback

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func reports(message string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Status.Conditions = append(c.Status.Conditions, translate.AnnotationsCondition(message))
	}
}

const (
	network  = `{"annotations":{"cni.io/network":"net1"}}`
	tooLarge = `{"annotations":{"cni.io/network":"net1"},"tooLarge":["cni.io/huge"]}`
)

// wanted makes the administrator want these annotations. The manager begins anew.
func (s *scene) wanted(patterns ...string) {
	s.feedback.options.Annotations = patterns
	s.reconciler = s.feedback.Reconciler(s.engaged)
}

func TestAProxyGetsTheAnnotationsOfItsDelegateOnce(t *testing.T) {
	s := newScene(t, proxy(), ours(reports(tooLarge)))
	s.wanted("cni.io/*")
	for range 2 {
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if s.changes != 1 {
		t.Errorf("it is written %d times", s.changes)
	}
	s.expectEvents(ReasonAnnotationsMissing)
	if got := s.now().Annotations["cni.io/network"]; got != "net1" {
		t.Errorf("got %q", got)
	}
	s.wanted() // The administrator changed his mind.
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	if now := s.now().Annotations; now["cni.io/network"] != "" || now[v1alpha1.AnnotationFromTarget] != "" {
		t.Errorf("annotations %v stay", now)
	}
}

// TestAnAnnotationThatTheUserOverwroteBeforeAnUpgradeReachesThePodChaperon has a mark of an earlier version, which has
// no hash of the value.
func TestAnAnnotationThatTheUserOverwroteBeforeAnUpgradeReachesThePodChaperon(t *testing.T) {
	s := newScene(t, proxy(), ours(reports(network)))
	s.wanted("cni.io/*")
	s.mustReconcile()
	pod := s.now()
	mark, _, _ := strings.Cut(pod.Annotations[v1alpha1.AnnotationFromTarget], " =")
	pod.Annotations[v1alpha1.AnnotationFromTarget], pod.Annotations["cni.io/network"] = mark, "mine"
	if err := s.source.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.mustReconcile()
	}
	if s.changes != 2 {
		t.Errorf("the proxy is written %d times", s.changes)
	}
	if got := s.now().Annotations["cni.io/network"]; got != "mine" {
		t.Errorf("got %q", got)
	}
	s.expectRequests(`"cni.io/network":"mine"`)
}

func TestWhenAProxyGetsNoAnnotations(t *testing.T) {
	onProxy := func(change func(*corev1.Pod)) func(client.Object) {
		return func(o client.Object) {
			if pod, ok := o.(*corev1.Pod); ok {
				change(pod)
			}
		}
	}
	for name, test := range map[string]struct {
		wanted  []string
		message string
		live    func(client.Object)
		fail    string
		err     error
		failed  bool
		events  []string
	}{
		"the target adds none": {wanted: []string{"cni.io/*"}, message: "{}"},
		"nobody wants them":    {message: network},
		"it is the next proxy": {
			wanted: []string{"cni.io/*"}, live: onProxy(func(p *corev1.Pod) { p.UID = "b" }),
		},
		"the source's API server fails": {wanted: []string{"cni.io/*"}, fail: "live proxy", err: errDown, failed: true},
		"it is elsewhere now": {
			wanted: []string{"cni.io/*"}, live: onProxy(func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c3" }),
		},
		"the API server refuses them": {
			wanted: []string{"cni.io/*"}, fail: "patch proxy",
			err:    apierrors.NewInvalid(schema.GroupKind{}, "web", nil),
			events: []string{ReasonAnnotationsMissing},
		},
		"the proxy changes at that moment": {
			wanted: []string{"cni.io/*"}, fail: "patch proxy",
			err: apierrors.NewConflict(schema.GroupResource{}, "web", errDown), failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.message == "" {
				test.message = network
			}
			s := newScene(t, proxy(), ours(reports(test.message)))
			s.wanted(test.wanted...)
			s.liveSeen = test.live
			if test.fail != "" {
				s.fail[test.fail] = test.err
			}
			if _, err := s.reconcile(); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if got := s.now().Annotations["cni.io/network"]; got != "" {
				t.Errorf("got %q", got)
			}
			s.expectEvents(test.events...)
		})
	}
}

func TestAProxyThatIsBeingDeletedGetsNoAnnotations(t *testing.T) {
	p := decide(state{
		nodeName: node, wanted: []string{"cni.io/*"}, proxy: proxy(terminating(30)),
		chaperons: []v1alpha1.PodChaperon{*ours(reports(network))}, vet: anyAddress, now: time.Unix(2000, 0),
	})
	if p.annotations != nil {
		t.Error("it gets them")
	}
}

func TestAnnotationsOfOneTargetAreWrittenAtALimitedRate(t *testing.T) {
	s := newScene(t, proxy(), ours(reports(network)))
	s.wanted("cni.io/*")
	worker, ok := s.reconciler.(*reconciler)
	if !ok || !worker.annotations.AllowN(s.clock.Now(), annotationsBurst) {
		t.Fatal("there is no burst")
	}
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != annotateLater || s.changes > 0 {
		t.Fatalf("got %v, %v, %d writes", result, err, s.changes)
	}
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	if _, err := s.reconcile(); err != nil || s.changes != 1 {
		t.Errorf("got %v, %d writes", err, s.changes)
	}
}

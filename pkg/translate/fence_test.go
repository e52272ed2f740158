package translate_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestFenceIsAWholeNumberOfSeconds(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "60": time.Minute, "86400": 24 * time.Hour,
		"59": -1, "86401": -1, "-60": -1, "60s": -1, "1m": -1, "60.0": -1, "060": -1, "+60": -1, "1e3": -1,
		"99999999999999999999": -1,
	} {
		got, err := translate.Fence(value)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %s, %v", value, got, err)
		}
	}
}

func TestThePodsOwnFenceTakesPrecedence(t *testing.T) {
	for name, test := range map[string]struct {
		own    *string
		policy *int32
		want   time.Duration
	}{
		"neither":                        {nil, nil, 0},
		"the target's":                   {nil, ptr.To[int32](90), 90 * time.Second},
		"the pod's":                      {ptr.To("120"), nil, 2 * time.Minute},
		"the pod's instead":              {ptr.To("120"), ptr.To[int32](90), 2 * time.Minute},
		"turned off by an empty value":   {ptr.To(""), ptr.To[int32](90), 0},
		"turned off by 0":                {ptr.To("0"), ptr.To[int32](90), 0},
		"changed to something malformed": {ptr.To("soon"), ptr.To[int32](90), 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if test.own != nil {
				pod.Annotations = map[string]string{v1alpha1.AnnotationFenceAfter: *test.own}
			}
			policy := &v1alpha1.PlacementPolicy{FenceAfterSeconds: test.policy}
			if got := translate.FenceOf(pod, policy); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAPodThatIsReplacedBeforeItsFenceHoldsIsRefusedOrWarnedOf(t *testing.T) {
	// 150 s: the fence of 60 s, 60 s of slack, and the grace period of 30 s.
	replicaSet := metav1.OwnerReference{Kind: "ReplicaSet", Controller: ptr.To(true)}
	statefulSet := metav1.OwnerReference{Kind: "StatefulSet", Controller: ptr.To(true)}
	for name, test := range map[string]struct {
		fence   string
		owner   *metav1.OwnerReference
		change  func(*corev1.PodSpec)
		refused bool
		warned  bool
	}{
		"the default toleration":                   {fence: "60", owner: &replicaSet},
		"the default toleration as it was added":   {fence: "60", owner: &replicaSet, change: tolerate(300, 300)},
		"a long fence, and the default toleration": {fence: "211", owner: &replicaSet, warned: true},
		"a long fence, and the default as added":   {"211", &replicaSet, tolerate(300, 300), false, true},
		"a shorter toleration of a lost target":    {"60", &replicaSet, tolerate(149, 300), true, true},
		"just long enough":                         {"60", &replicaSet, tolerate(150, 300), false, false},
		"a shorter toleration of our own silence":  {"60", &replicaSet, tolerate(300, 149), true, true},
		"its own time, which does not begin anew":  {"60", &replicaSet, tolerate(300, 299), true, true},
		"eviction at once":                         {"60", &replicaSet, tolerate(0, 300), true, true},
		"a toleration for ever":                    {"86400", &replicaSet, tolerate(-1, -1), false, false},
		"a long grace period": {"60", &replicaSet, func(s *corev1.PodSpec) {
			s.TerminationGracePeriodSeconds = ptr.To[int64](181)
		}, false, true},
		"a StatefulSet waits for the end":     {"86400", &statefulSet, tolerate(0, 0), false, false},
		"nobody replaces the pod":             {"86400", nil, tolerate(0, 0), false, false},
		"nobody asked for fencing":            {"", &replicaSet, tolerate(0, 0), false, false},
		"fencing was turned off":              {"0", &replicaSet, tolerate(0, 0), false, false},
		"a target's default is not known yet": {"-", &replicaSet, tolerate(0, 0), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{v1alpha1.AnnotationFenceAfter: test.fence}
			if test.fence == "-" {
				annotations = nil
			}
			pod := elected(annotations, test.change)
			if test.owner != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*test.owner}
			}
			proxy, err := translate.Proxy(pod)
			if (err != nil) != test.refused {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), v1alpha1.AnnotationFenceAfter) ||
					!strings.Contains(err.Error(), "not-ready for at least 150 s, and "+
						"node.kubernetes.io/unreachable for 300 s or more") {
					t.Errorf("error %q", err)
				}
				return
			}
			fence, _ := translate.Fence(proxy.Annotations[v1alpha1.AnnotationFenceAfter])
			if problem, _ := translate.FenceProblem(proxy, fence); (problem != "") != test.warned {
				t.Errorf("problem %q", problem)
			}
		})
	}
}

// tolerate has the pod tolerate a lost target and our silence for so many seconds, or for ever if negative.
func tolerate(lost, silent int64) func(*corev1.PodSpec) {
	seconds := func(s int64) *int64 {
		if s < 0 {
			return nil
		}
		return &s
	}
	return func(spec *corev1.PodSpec) {
		spec.Tolerations = []corev1.Toleration{notReady(seconds(lost)), unreachable(seconds(silent))}
	}
}

func TestAMalformedFenceIsRefused(t *testing.T) {
	_, err := translate.Proxy(elected(map[string]string{v1alpha1.AnnotationFenceAfter: "1m"}, nil))
	const want = "metadata.annotations[multicluster.admiralty.io/fence-after-seconds]: Invalid value: \"1m\": must " +
		"be a whole number of seconds from 60 to 86400, or empty or 0 for no fencing"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}

func TestAUserCannotSayThatADelegateIsFenced(t *testing.T) {
	proxy := mustProxy(t, elected(map[string]string{v1alpha1.AnnotationFencedAfter: "60"}, nil))
	if _, ok := proxy.Annotations[v1alpha1.AnnotationFencedAfter]; ok {
		t.Error("the annotation stays")
	}
}

func TestAPodChaperonSaysWhenItsDelegateIsFencedAndTheDelegateDoesNot(t *testing.T) {
	proxy := mustProxy(t, elected(map[string]string{v1alpha1.AnnotationFenceAfter: "3600"}, nil))
	for fence, want := range map[time.Duration]string{0: "", 90 * time.Second: "90"} {
		to := destination()
		to.Fence = fence
		chaperon, err := translate.Chaperon(proxy, source(), to)
		if err != nil {
			t.Fatal(err)
		}
		if got := chaperon.Annotations[v1alpha1.AnnotationFenceAfter]; got != want {
			t.Errorf("value %q, want %q", got, want)
		}
		if _, ok := translate.Delegate(chaperon).Annotations[v1alpha1.AnnotationFenceAfter]; ok {
			t.Error("the delegate has the annotation")
		}
	}
}

// TestOutOfServiceEvicts: Kubernetes evicts the proxies of a virtual node with this taint, unless the user wants
// otherwise, and then ends them.
func TestOutOfServiceEvicts(t *testing.T) {
	taint := &corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}
	proxy := mustProxy(t, elected(nil, tolerate(-1, -1)))
	for _, toleration := range proxy.Spec.Tolerations {
		if (toleration.Key == "" || toleration.Key == taint.Key) &&
			(toleration.Effect == "" || toleration.Effect == taint.Effect) {
			t.Errorf("the proxy tolerates it: %v", toleration)
		}
	}
}

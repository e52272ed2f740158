package translate_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var patterns = []string{"cni.io/*", "example.com/zone", "plain"}

// marked returns the delegate of a pod with the annotation cni.io/own, whose source wants the patterns. Others gave it
// the annotations.
func marked(t *testing.T, annotations map[string]string) *corev1.Pod {
	t.Helper()
	to := destination()
	to.Annotations = patterns
	pod := mustProxy(t, elected(map[string]string{"cni.io/own": "mine"}, nil))
	chaperon, err := translate.Chaperon(pod, source(), to)
	if err != nil {
		t.Fatal(err)
	}
	delegate := translate.Delegate(chaperon)
	for key, value := range annotations {
		delegate.Annotations[key] = value
	}
	return delegate
}

func statusWith(message string) *corev1.PodStatus {
	return &corev1.PodStatus{Conditions: []corev1.PodCondition{translate.AnnotationsCondition(message)}}
}

// taken returns the proxy with what it takes from such a status.
func taken(t *testing.T, proxy *corev1.Pod, status *corev1.PodStatus) *corev1.Pod {
	t.Helper()
	proxy = proxy.DeepCopy()
	take := translate.TakeAnnotations(patterns, status)
	take.Give(proxy)
	if !take.In(proxy) {
		t.Error("the proxy lacks what it was given")
	}
	return proxy
}

func TestWantedAnnotationsReachTheProxy(t *testing.T) {
	delegate := marked(t, map[string]string{
		"cni.io/network": "net1", "example.com/zone": "a", "example.com/other": "b", "plain": "c", "cni.io.evil/x": "d",
		corev1.LastAppliedConfigAnnotation: "e",
	})
	before := mustProxy(t, elected(map[string]string{"cni.io/own": "mine", "plain": "the user's"}, nil))
	got := taken(t, before, statusWith(translate.AddedAnnotations(delegate)))
	for key, want := range map[string]string{
		"cni.io/network": "net1", "example.com/zone": "a", "example.com/other": "", "plain": "the user's",
		"cni.io.evil/x": "", "cni.io/own": "mine", corev1.LastAppliedConfigAnnotation: "",
	} {
		if got.Annotations[key] != want {
			t.Errorf("%s: got %q, want %q", key, got.Annotations[key], want)
		}
	}
	if translate.Fingerprint(got) != translate.Fingerprint(before) {
		t.Error("the delegate would get its own annotations from the proxy")
	}
	delegate = marked(t, map[string]string{"cni.io/network": "net2"})
	next := taken(t, got, statusWith(translate.AddedAnnotations(delegate)))
	if next.Annotations["cni.io/network"] != "net2" {
		t.Error("a change does not reach the proxy")
	}
	if diff := cmp.Diff(before.Annotations, taken(t, next, &corev1.PodStatus{}).Annotations); diff != "" {
		t.Errorf("something is left when the target takes its annotations back: %s", diff)
	}
}

const network1 = `{"annotations":{"cni.io/network":"net1"}}`

// withoutHashes changes the mark of a proxy to that of an earlier version.
func withoutHashes(proxy *corev1.Pod) {
	fields := strings.Fields(proxy.Annotations[v1alpha1.AnnotationFromTarget])
	fields = slices.DeleteFunc(fields, func(field string) bool { return strings.HasPrefix(field, "=") })
	proxy.Annotations[v1alpha1.AnnotationFromTarget] = strings.Join(fields, " ")
}

// TestAnAnnotationThatTheUserOverwritesIsTheUsers has an annotation that the target gave the pod first.
func TestAnAnnotationThatTheUserOverwritesIsTheUsers(t *testing.T) {
	const key = "cni.io/network"
	for name, test := range map[string]struct {
		message string // what the target reports next
		earlier bool   // an earlier version gave the proxy the target's annotation
	}{
		"the target leaves it at that":         {message: network1},
		"the target changes its own":           {message: `{"annotations":{"cni.io/network":"net2"}}`},
		"the target changes another one":       {message: `{"annotations":{"cni.io/network":"net1","plain":"a"}}`},
		"the target drops it":                  {message: ""},
		"the target drops it for another":      {message: `{"annotations":{"plain":"a"}}`},
		"the target reports the user's":        {message: `{"annotations":{"cni.io/network":"mine"}}`},
		"an earlier version took the target's": {message: network1, earlier: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := taken(t, mustProxy(t, elected(nil, nil)), statusWith(network1))
			if test.earlier {
				withoutHashes(before)
			}
			proxy := before.DeepCopy()
			proxy.Annotations[key] = "mine"
			for range 2 {
				proxy = taken(t, proxy, statusWith(test.message))
				if got := proxy.Annotations[key]; got != "mine" {
					t.Fatalf("the user's annotation is %q", got)
				}
				if translate.Fingerprint(proxy) == translate.Fingerprint(before) {
					t.Error("the change does not reach the PodChaperon")
				}
				if got := mustChaperon(t, proxy).Annotations[key]; got != "mine" {
					t.Errorf("the PodChaperon has %q", got)
				}
			}
		})
	}
}

// TestADelegateShowsThatItLacksAnOverwrittenAnnotation follows such an annotation to the target, and back.
func TestADelegateShowsThatItLacksAnOverwrittenAnnotation(t *testing.T) {
	const key = "cni.io/network"
	to := destination()
	to.Annotations = patterns
	proxy := mustProxy(t, elected(nil, nil))
	chaperon, err := translate.Chaperon(proxy, source(), to)
	if err != nil {
		t.Fatal(err)
	}
	delegate := translate.Delegate(chaperon)
	delegate.Annotations[key] = "net1"
	proxy = taken(t, proxy, statusWith(translate.AddedAnnotations(delegate)))
	change := func() *translate.Changes {
		if chaperon, err = translate.ChangedChaperon(proxy, source(), to, chaperon); err != nil {
			t.Fatal(err)
		}
		return translate.DelegateChanges(delegate, chaperon)
	}

	proxy.Annotations[key] = "mine"
	changes := change()
	if diff := cmp.Diff([]string{"annotations/" + key}, changes.Kept); diff != "" {
		t.Errorf("unexpected values kept (-want +got):\n%s", diff)
	}
	changes.WithoutKept()
	delegate = changes.Metadata
	if added := translate.AddedAnnotations(delegate); added != network1 {
		t.Errorf("the target reports %s", added)
	}

	delete(delegate.Annotations, key) // The target gives way.
	delegate = change().Metadata
	if got := delegate.Annotations[key]; got != "mine" {
		t.Errorf("the delegate has %q", got)
	}
	if added := translate.AddedAnnotations(delegate); added != "" {
		t.Errorf("the target reports %s, which is the user's", added)
	}
	proxy = taken(t, proxy, statusWith(""))
	delete(proxy.Annotations, key)
	if got, has := change().Metadata.Annotations[key]; has {
		t.Errorf("the user's annotation stays in the target: %q", got)
	}
}

func TestMarksOfEarlierVersionsAreUnderstood(t *testing.T) {
	marked := taken(t, mustProxy(t, elected(nil, nil)), statusWith(network1))
	earlier := marked.DeepCopy()
	withoutHashes(earlier)
	if translate.Fingerprint(earlier) != translate.Fingerprint(marked) {
		t.Error("the upgrade gives the delegate its own annotation")
	}
	same := translate.TakeAnnotations(patterns, statusWith(network1))
	if same.In(earlier) {
		t.Error("the mark is not written anew")
	}
	if diff := cmp.Diff(marked.Annotations, taken(t, earlier, statusWith(network1)).Annotations); diff != "" {
		t.Errorf("the mark is not that of this version (-want +got):\n%s", diff)
	}
	next := taken(t, earlier, statusWith(`{"annotations":{"cni.io/network":"net2"}}`))
	if got := next.Annotations["cni.io/network"]; got != "net2" {
		t.Errorf("the target's change does not reach the proxy: %q", got)
	}
}

// TestAMarkThatTheUserWroteHarmsNobodyElse has marks on a bound proxy, which admission does not see.
func TestAMarkThatTheUserWroteHarmsNobodyElse(t *testing.T) {
	before := taken(t, mustProxy(t, elected(map[string]string{"plain": "mine"}, nil)), statusWith(network1))
	honest := before.Annotations[v1alpha1.AnnotationFromTarget]
	for _, mark := range []string{
		"", " ", "=", " =", "a", "a =b", "a plain =", "a plain =0 =1", honest + " plain", honest + " = " + honest,
		honest + " " + v1alpha1.AnnotationElect + " " + v1alpha1.AnnotationOriginalConstraints,
	} {
		proxy := before.DeepCopy()
		proxy.Annotations[v1alpha1.AnnotationFromTarget] = mark
		proxy = taken(t, proxy, statusWith(network1))
		if !translate.Admitted(proxy) || proxy.Annotations["cni.io/network"] != "net1" {
			t.Errorf("%q: the proxy has %v", mark, proxy.Annotations)
		}
	}
}

func TestASourceThatWantsNoAnnotationsGetsNone(t *testing.T) {
	delegate := translate.Delegate(mustChaperon(t, mustProxy(t, elected(nil, nil))))
	delegate.Annotations["cni.io/network"] = "net1"
	if added := translate.AddedAnnotations(delegate); added != "" {
		t.Errorf("the target reports %s", added)
	}
	proxy := mustProxy(t, elected(nil, nil))
	translate.TakeAnnotations(nil, statusWith(`{"annotations":{"cni.io/network":"net1"}}`)).Give(proxy)
	if len(proxy.Annotations) != len(mustProxy(t, elected(nil, nil)).Annotations) {
		t.Errorf("the proxy has %v", proxy.Annotations)
	}
}

func TestAnnotationsOfDelegatesOfEarlierVersionsStayThere(t *testing.T) {
	delegate := marked(t, map[string]string{"cni.io/network": "net1"})
	delete(delegate.Annotations, v1alpha1.AnnotationApplied)
	if added := translate.AddedAnnotations(delegate); added != "" {
		t.Errorf("the target reports %s, perhaps the user's own", added)
	}
}

func TestAnnotationsFromTargetsAreBounded(t *testing.T) {
	many := map[string]string{"plain": strings.Repeat("a", 20<<10)}
	for i := range 40 {
		many["cni.io/"+strconv.Itoa(i)] = strings.Repeat("a", 1000)
	}
	honest := translate.AddedAnnotations(marked(t, many))
	if len(honest) > 20<<10 || !strings.Contains(honest, `"tooLarge":[`) {
		t.Errorf("the target reports %d bytes, %s", len(honest), honest[max(len(honest)-200, 0):])
	}
	lie, err := json.Marshal(map[string]any{
		"annotations": many, "tooLarge": []string{"cni.io/a b", "cni.io/c", "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{honest, string(lie)} {
		proxy, size := taken(t, mustProxy(t, elected(nil, nil)), statusWith(message)), 0
		for key, value := range proxy.Annotations {
			size += len(key) + len(value)
		}
		if size < 10<<10 || size > 20<<10 {
			t.Errorf("the proxy has %d bytes of annotations", size)
		}
	}
	tiny := map[string]string{}
	for i := range 4000 {
		tiny["cni.io/"+strconv.Itoa(i)] = ""
	}
	proxy := taken(t, mustProxy(t, elected(nil, nil)), statusWith(translate.AddedAnnotations(marked(t, tiny))))
	if mark := proxy.Annotations[v1alpha1.AnnotationFromTarget]; len(mark) > 17<<10 {
		t.Errorf("the mark has %d bytes", len(mark))
	}
	for _, key := range translate.TakeAnnotations(patterns, statusWith(string(lie))).TooLarge() {
		if key == "other" || key == "cni.io/a b" {
			t.Errorf("%q was not asked for", key)
		}
	}
}

func TestATargetCannotReportOtherAnnotations(t *testing.T) {
	for _, message := range []string{
		"", "{", `{"annotations":{"` + v1alpha1.AnnotationElect + `":"no"}}`, `{"annotations":{"cni.io/a b":"c"}}`,
		`{"annotations":{"cluster-autoscaler.kubernetes.io/safe-to-evict":"false"}}`, `{"annotations":["cni.io/a"]}`,
	} {
		before := mustProxy(t, elected(nil, nil))
		got := taken(t, before, statusWith(message))
		if diff := cmp.Diff(before.Annotations, got.Annotations); diff != "" {
			t.Errorf("%s: %s", message, diff)
		}
	}
	conditions := statusWith(strings.Repeat("a", 1<<20)).Conditions
	if translate.BoundAnnotations(conditions); conditions[0].Message != "" {
		t.Error("a large message is kept in the cache")
	}
	honest := translate.AddedAnnotations(marked(t, map[string]string{"plain": strings.Repeat(`"`, 16<<10-5-18)}))
	conditions = statusWith(honest).Conditions
	if translate.BoundAnnotations(conditions); conditions[0].Message != honest {
		t.Error("the largest honest message is not kept")
	}
}

func TestAUserCannotSayWhichAnnotationsAreTheTargets(t *testing.T) {
	proxy := mustProxy(t, elected(map[string]string{v1alpha1.AnnotationFromTarget: "a plain", "plain": "a"}, nil))
	if _, ok := proxy.Annotations[v1alpha1.AnnotationFromTarget]; ok {
		t.Error("the annotation stays")
	}
}

func TestProxiesDoNotShowTheConditionOfAnnotations(t *testing.T) {
	proxy := mustProxy(t, elected(nil, nil))
	status := *statusWith("{}")
	status.Phase = corev1.PodRunning
	if shown := translate.ProxyStatus(proxy, status); len(shown.Conditions) > 0 {
		t.Errorf("got %v", shown.Conditions)
	}
}

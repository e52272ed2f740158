package capacity

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestClasses(t *testing.T) {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	gpus := func(count string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable["example.com/gpu"] = resource.MustParse(count) }
	}
	full := list("2", "4Gi", "110")
	for name, test := range map[string]struct {
		nodes    []*corev1.Node
		pods     []*corev1.Pod
		excluded string
		want     v1alpha1.ClusterSummaryStatus
	}{
		"no nodes are in no class": {},
		"nodes with the same labels are one class, but for their hostnames": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", label("zone", "z"), label(corev1.LabelHostname, "a")),
				node("b", "2", "4Gi", label("zone", "z"), label(corev1.LabelHostname, "b")),
			},
			want: v1alpha1.ClusterSummaryStatus{
				CommonLabels: map[string]string{"zone": "z"}, OmittedLabels: []string{corev1.LabelHostname},
				Classes: []v1alpha1.NodeClass{{Nodes: 2, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 2, Resources: full}}}},
			},
		},
		"nodes with other labels are another class, and what all have is told once": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", label("os", "linux"), label("zone", "y")), node("b", "2", "4Gi", label("os", "linux"), label("zone", "z")),
			},
			want: v1alpha1.ClusterSummaryStatus{
				CommonLabels: map[string]string{"os": "linux"},
				Classes: []v1alpha1.NodeClass{
					{Labels: map[string]string{"zone": "y"}, Nodes: 1, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}}},
					{Labels: map[string]string{"zone": "z"}, Nodes: 1, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}}},
				},
			},
		},
		"what is free is told together, the emptiest nodes first": {
			nodes: []*corev1.Node{node("a", "2", "4Gi"), node("b", "2", "4Gi"), node("c", "4", "2Gi", gpus("2"))},
			pods: []*corev1.Pod{
				pod("p", "a", "500m", "1Gi"), pod("q", "b", "500m", "1Gi"),
				pod("r", "c", "1", "2Gi", func(p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
				}),
			},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Nodes: 3, Allocatable: with(list("4", "4Gi", "110"), "example.com/gpu", "2"),
				Free: []v1alpha1.FreeNodes{
					{Nodes: 1, Resources: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourcePods: resource.MustParse("109"), "example.com/gpu": resource.MustParse("1"),
					}},
					{Nodes: 2, Resources: list("1500m", "3Gi", "109")},
				},
			}}},
		},
		"cordoned nodes have the taint that says so, even before anybody has put it there": {
			nodes: []*corev1.Node{node("a", "2", "4Gi", cordoned), node("b", "2", "4Gi", cordoned, func(n *corev1.Node) {
				added := cordon
				added.TimeAdded = &metav1.Time{Time: time.Unix(1, 0)}
				n.Spec.Taints = []corev1.Taint{added}
			})},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{
				{Taints: []corev1.Taint{cordon}, Nodes: 2, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 2, Resources: full}}},
			}},
		},
		"nodes that are not ready are told with the taints that they have": {
			nodes: []*corev1.Node{node("a", "2", "4Gi", notReady, taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute))},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}},
				Nodes:  1, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}},
			}}},
		},
		"taints that only discourage are not told, and others are sorted": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", taint("x", corev1.TaintEffectNoSchedule), taint("b", corev1.TaintEffectPreferNoSchedule), taint("a", corev1.TaintEffectNoSchedule)),
				node("b", "2", "4Gi", taint("a", corev1.TaintEffectNoSchedule), taint("x", corev1.TaintEffectNoSchedule)),
			},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "x", Effect: corev1.TaintEffectNoSchedule}},
				Nodes:  2, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 2, Resources: full}},
			}}},
		},
		"virtual nodes are in no class": {nodes: []*corev1.Node{node("v", "2", "4Gi", virtual)}},
		"nodes that take no pod more are counted, and what is free there is not told": {
			nodes: []*corev1.Node{node("a", "2", "4Gi", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1") })},
			pods:  []*corev1.Pod{pod("p", "a", "1", "1Gi")},
			want:  v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{Nodes: 1, Allocatable: list("2", "4Gi", "1")}}},
		},
		"a node that has shrunk under its pods has none of that free": {
			nodes: []*corev1.Node{node("a", "1", "4Gi")},
			pods:  []*corev1.Pod{pod("p", "a", "2", "1Gi")},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Nodes: 1, Allocatable: list("1", "4Gi", "110"), Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: without(list("0", "3Gi", "109"), corev1.ResourceCPU)}},
			}}},
		},
		"excluded labels are nowhere, by key and value": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", label("secret/a", "1"), label("rack", "hidden"), label(corev1.LabelHostname, "a")),
				node("b", "2", "4Gi", label("secret/b", "1"), label("rack", "shown"), label(corev1.LabelHostname, "b")),
			},
			excluded: "^secret/|^rack=hidden$|^kubernetes.io/hostname=",
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{
				{Nodes: 1, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}}},
				{Labels: map[string]string{"rack": "shown"}, Nodes: 1, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var excluded *regexp.Regexp
			if test.excluded != "" {
				excluded = regexp.MustCompile(test.excluded)
			}
			got := Summarize(test.nodes, test.pods, excluded)
			told := v1alpha1.ClusterSummaryStatus{
				CommonLabels: got.Status.CommonLabels, OmittedLabels: got.Status.OmittedLabels, Classes: got.Status.Classes,
			}
			if diff := cmp.Diff(test.want, told, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if data, _ := json.Marshal(got); test.excluded != "" && regexp.MustCompile("secret|hidden|hostname").Match(data) {
				t.Errorf("something that is excluded is told: %s", data)
			}
		})
	}
}

func TestClassesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 60)
	for name, test := range map[string]struct {
		change         func(i int, n *corev1.Node)
		classes, nodes int
		omitted        string // all of them
	}{
		"as many classes as there may be": {
			change:  func(i int, n *corev1.Node) { n.Labels["a"] = fmt.Sprint(i % 50) },
			classes: 50, nodes: 300,
		},
		"the key with the most values is left out": {
			change:  func(i int, n *corev1.Node) { n.Labels["a"], n.Labels["b"] = fmt.Sprint(i%10), fmt.Sprint(i%60) },
			classes: 10, nodes: 300, omitted: "b",
		},
		"no more keys are left out than must be": {
			change: func(i int, n *corev1.Node) {
				n.Labels["a"], n.Labels["b"], n.Labels["c"] = fmt.Sprint(i%3), fmt.Sprint(i/3%5), fmt.Sprint(i/15%7)
			},
			classes: 15, nodes: 300, omitted: "c",
		},
		"of keys with as many values, the rarest is left out": {
			change: func(i int, n *corev1.Node) {
				for bit := range 5 {
					n.Labels[fmt.Sprint("bit", bit)] = fmt.Sprint(i >> bit & 1)
				}
				if i>>5&1 == 1 {
					n.Labels["few"] = ""
				}
			},
			classes: 32, nodes: 300, omitted: "few",
		},
		"a key of its own on each node": {
			change:  func(i int, n *corev1.Node) { n.Labels[fmt.Sprint("key", i)] = "" },
			classes: 50, nodes: 300, omitted: "*",
		},
		"of classes that only their taints tell apart, those of the most nodes are told": {
			change:  func(i int, n *corev1.Node) { taint(fmt.Sprint(max(0, i-200)), corev1.TaintEffectNoSchedule)(n) },
			classes: 50, nodes: 250,
		},
		"labels that are too long together": {
			change: func(i int, n *corev1.Node) {
				for key := range 100 {
					n.Labels[fmt.Sprint(long, key)] = fmt.Sprint(long, i%(2+key/4))
				}
			},
			classes: -1, nodes: 300, omitted: "*",
		},
		"taints that are too long together": {
			change: func(i int, n *corev1.Node) {
				for key := range 200 {
					taint(fmt.Sprint(long, i%50, "-", key), corev1.TaintEffectNoSchedule)(n)
				}
			},
			classes: 8, nodes: 48,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*corev1.Node
			for i := range 300 {
				n := node(fmt.Sprint(i), "2", "4Gi", label("all", "same"))
				test.change(i, n)
				nodes = append(nodes, n)
			}
			status := Summarize(nodes, nil, nil).Status
			if told := nodesIn(status.Classes); told != test.nodes || test.classes >= 0 && len(status.Classes) != test.classes {
				t.Errorf("told %d nodes in %d classes, want %d in %d", told, len(status.Classes), test.nodes, test.classes)
			}
			if omitted := strings.Join(status.OmittedLabels, " "); test.omitted != "*" && omitted != test.omitted {
				t.Errorf("omitted %q, want %q", omitted, test.omitted)
			}
			if status.CommonLabels["all"] != "same" {
				t.Errorf("common labels %v are without the one that all have", status.CommonLabels)
			}
			if data, _ := json.Marshal(status); len(data) > 400<<10 {
				t.Errorf("the status has %d bytes", len(data))
			}
		})
	}
}

func nodesIn(classes []v1alpha1.NodeClass) int {
	sum := 0
	for i := range classes {
		sum += int(classes[i].Nodes)
	}
	return sum
}

func TestLatestDelegates(t *testing.T) {
	at := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(seconds, 0),
			}}
		}
	}
	place := func(a *account, names ...string) {
		for _, name := range names {
			a.setPod(pod(name, "a", "1", "1Gi", delegate("s", name+"-0123456789")))
		}
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("%04d", i)
	}
	shortened := func(names ...string) []string {
		var latest []string
		for _, name := range names {
			latest = append(latest, name[:4]+"-012")
		}
		return latest
	}
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: name} }
	for name, test := range map[string]struct {
		events func(*account)
		want   []string
	}{
		"are in the order in which they were counted": {func(a *account) { place(a, "bbbb", "aaaa", "cccc") }, shortened("bbbb", "aaaa", "cccc")},
		"are the last ones of many":                   {func(a *account) { place(a, many...) }, shortened(many[44:]...)},
		"keep their place when they are resized": {func(a *account) {
			place(a, "aaaa", "bbbb")
			a.setPod(pod("aaaa", "a", "2", "1Gi", delegate("s", "aaaa-0123456789")))
		}, shortened("aaaa", "bbbb")},
		"leave when they go": {func(a *account) {
			place(a, "aaaa", "bbbb")
			a.removePod(key("aaaa"))
		}, shortened("bbbb")},
		"leave when they finish": {func(a *account) {
			place(a, "aaaa", "bbbb")
			a.setPod(pod("bbbb", "a", "1", "1Gi", delegate("s", "bbbb-0123456789"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
		}, shortened("aaaa")},
		"make room for older ones when they go": {func(a *account) {
			place(a, many...)
			a.removePod(key("0299"))
		}, shortened(many[43:299]...)},
		"are not listed before they have a node": {func(a *account) {
			a.setPod(pod("aaaa", "", "1", "1Gi", delegate("s", "aaaa-0123456789")))
			place(a, "bbbb")
		}, shortened("bbbb")},
		"are those of this source alone": {func(a *account) {
			place(a, "aaaa")
			a.setPod(pod("bbbb", "a", "1", "1Gi", delegate("other", "bbbb-0123456789")))
		}, shortened("aaaa")},
		"are listed where their node is unknown, cordoned or gone": {func(a *account) {
			place(a, "aaaa")
			a.removeNode("a")
			a.setPod(pod("bbbb", "unknown", "1", "1Gi", delegate("s", "bbbb-0123456789")))
		}, shortened("aaaa", "bbbb")},
		"are ordered by when they were scheduled at the start, then by when they were made": {func(a *account) {
			a.setPod(pod("aaaa", "a", "1", "1Gi", delegate("s", "aaaa-0123456789"), at(3)))
			a.setPod(pod("bbbb", "a", "1", "1Gi", delegate("s", "bbbb-0123456789"), at(1)))
			a.setPod(pod("cccc", "a", "1", "1Gi", delegate("s", "cccc-0123456789"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(2, 0) }))
			a.orderDelegates()
			place(a, "dddd")
		}, shortened("bbbb", "cccc", "aaaa", "dddd")},
		"may have short UIDs": {func(a *account) { a.setPod(pod("aaaa", "a", "1", "1Gi", delegate("s", "u"))) }, []string{"u"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(nil)
			a.setNode(node("a", "900", "900Gi"))
			test.events(a)
			var got []string
			for _, source := range a.summary().Status.Sources {
				if source.ClusterID == "s" {
					got = source.Latest
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("latest (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSharesAreFair(t *testing.T) {
	for name, test := range map[string]struct{ wanted, want []int }{
		"nobody wants anything":                              {[]int{0, 0}, []int{0, 0}},
		"all get what they want":                             {[]int{3, 4}, []int{3, 4}},
		"what one does not want is for the others":           {[]int{90, 2, 90}, []int{9, 2, 9}},
		"what cannot be divided goes to those who want more": {[]int{50, 60, 70}, []int{6, 7, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shares(test.wanted, 20)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func with(l corev1.ResourceList, name corev1.ResourceName, amount string) corev1.ResourceList {
	l[name] = resource.MustParse(amount)
	return l
}

func without(l corev1.ResourceList, name corev1.ResourceName) corev1.ResourceList {
	delete(l, name)
	return l
}

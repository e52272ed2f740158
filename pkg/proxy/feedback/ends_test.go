package feedback

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestThePodChaperonOfAProxyIsRememberedWhenItIsGone(t *testing.T) {
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	e := ends{}
	own, other := chaperon(), chaperon(ofAnother)
	other.UID = "c2"
	e.note(&other)
	e.note(&own)
	newer := own
	newer.Status.Reason = "newer"
	e.note(&newer)
	for _, step := range []struct {
		state state
		want  *v1alpha1.PodChaperon
		left  int
	}{
		{state{nodeName: node, proxy: proxy(), chaperons: []v1alpha1.PodChaperon{own, other}}, nil, 2},
		{state{nodeName: node, proxy: proxy(), chaperons: []v1alpha1.PodChaperon{other}}, &newer, 2},
		{state{nodeName: node, proxy: proxy()}, &newer, 1},
		{state{nodeName: node, proxy: proxy(boundTo("admiralty-c3"))}, nil, 0},
	} {
		if got := e.of(key, step.state); got != step.want {
			t.Errorf("remembered %v, want %v", got, step.want)
		}
		if left := len(e.byProxy[key]); left != step.left {
			t.Errorf("%d PodChaperons are left, want %d", left, step.left)
		}
	}
	if len(e.byProxy) != 0 {
		t.Errorf("%d proxies are remembered", len(e.byProxy))
	}
}

func TestATargetThatShowsTheSamePodChaperonWithOtherUIDsIsRememberedOnce(t *testing.T) {
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	e, a := ends{}, asks{}
	var last v1alpha1.PodChaperon
	for i := range 100 {
		last = chaperon(func(c *v1alpha1.PodChaperon) { c.UID = types.UID(fmt.Sprintf("c%d", i)) })
		e.note(last.DeepCopy())
		e.of(key, state{nodeName: node, proxy: proxy(), chaperons: []v1alpha1.PodChaperon{last}})
		a.remember(key, ask{chaperon: last.UID, parent: proxy().UID})
	}
	if got := len(e.byProxy[key]); got != 1 {
		t.Errorf("%d PodChaperons are remembered", got)
	}
	if got := e.of(key, state{nodeName: node, proxy: proxy()}); got == nil || got.UID != last.UID {
		t.Errorf("%v was the last one", got)
	}
	if got := a.forProxy(key, state{proxy: proxy()}); len(got) != 1 || got[0].chaperon != last.UID {
		t.Errorf("asked for %v", got)
	}
}

func TestAPodChaperonThatIsGoneIsForgottenUnlessItsProxyMayNeedIt(t *testing.T) {
	for name, test := range map[string]struct {
		proxies []client.Object
		left    int
	}{
		"of a proxy that is bound there":     {[]client.Object{proxy()}, 1},
		"of a proxy that is not bound yet":   {[]client.Object{proxy(boundTo(""))}, 1},
		"of a proxy that is bound elsewhere": {[]client.Object{proxy(boundTo("admiralty-c3"))}, 0},
		"of a proxy that is gone":            {nil, 0},
		"of another proxy of its name":       {[]client.Object{proxy(func(p *corev1.Pod) { p.UID = "2" })}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.proxies...)
			c, e := chaperon(), &ends{}
			e.note(&c)
			s.feedback.goneFrom(t.Context(), s.engaged, &c, e)
			if len(e.byProxy) != test.left {
				t.Errorf("%d are remembered", len(e.byProxy))
			}
		})
	}
}

func TestAnOrphanIsNotRemembered(t *testing.T) {
	e, was := ends{}, chaperon()
	e.note(&was)
	orphan := chaperon(func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.GroupName+"/orphan"] = "" })
	e.note(&orphan)
	if e.has(client.ObjectKeyFromObject(proxy()), proxy().UID) || len(e.byProxy) > 0 {
		t.Errorf("%v is remembered", e.byProxy)
	}
}

package feedback

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

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

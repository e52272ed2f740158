package garbagecollection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestUsesEndWithTheLastPodChaperon(t *testing.T) {
	first, second, third := chaperon("c1", "db"), chaperon("c1", "db", "registry"), chaperon("c2", "db")
	changed := chaperon("c1", "cache")
	db, registry := objectUse{"c1", "default", "secrets", "db"}, objectUse{"c1", "default", "secrets", "registry"}
	anyOfC1 := objectUse{"c1", "default", "", ""}

	u := newUseCounter()
	for _, step := range []struct {
		name        string
		before, now *v1alpha1.PodChaperon
		ended       []objectUse
	}{
		{"the first", nil, first, nil},
		{"the second", nil, second, nil},
		{"another source's", nil, third, nil},
		{"the second goes", second, nil, []objectUse{registry}},
		{"the first refers to something else", first, changed, []objectUse{db}},
		{
			"the other source's goes", third, nil,
			[]objectUse{{"c2", "default", "", ""}, {"c2", "default", "secrets", "db"}},
		},
		{"one without a source counts for nobody", nil, chaperon("", "db"), nil},
		{"the first goes", changed, nil, []objectUse{anyOfC1, {"c1", "default", "secrets", "cache"}}},
	} {
		less := cmpopts.SortSlices(
			func(a, b objectUse) bool { return a.source+a.resource+a.name < b.source+b.resource+b.name },
		)
		if diff := cmp.Diff(
			step.ended,
			u.replace(usesOfChaperon(step.before), usesOfChaperon(step.now)),
			cmp.AllowUnexported(objectUse{}),
			less,
		); diff != "" {
			t.Errorf("%s: ended (-want +got):\n%s", step.name, diff)
		}
		if of := usesOfChaperon(step.now); len(of) > 0 && !u.inUse(of[len(of)-1]) {
			t.Errorf("%s: %v is not counted", step.name, of[len(of)-1])
		}
	}
	if len(u.count) > 0 {
		t.Errorf("left over: %v", u.count)
	}
}

func chaperon(source string, secrets ...string) *v1alpha1.PodChaperon {
	c := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{}},
	}
	if source != "" {
		c.Labels[v1alpha1.LabelParentClusterID] = source
	}
	for _, secret := range secrets {
		c.Spec.ImagePullSecrets = append(c.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return c
}

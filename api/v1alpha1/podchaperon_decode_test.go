package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	endless  = "1e-999999999"
	panicked = "10000000000000000001e2147483639"
)

func TestAPodChaperonThatCannotBeReadConcernsOnlyItself(t *testing.T) {
	resources := func(quantity string) string {
		return `{"containers":[{"name":"c","resources":{"limits":{"cpu":` + quantity + `}}}]}`
	}
	for name, test := range map[string]struct{ spec, says string }{
		"containers are a text":     {`{"containers":"x"}`, "containers"},
		"an invalid quantity":       {resources(`"many"`), "quantities must match"},
		"a quantity that panics":    {resources(`"` + panicked + `"`), "too large"},
		"a quantity without an end": {resources(`"` + endless + `"`), "too large"},
		"as a number":               {resources(endless), "too large"},
		"a million digits":          {resources(`"1` + strings.Repeat("0", 1e6) + `"`), "too many digits"},
		"with blanks":               {resources(`" ` + endless + `\t"`), ""},
		"of another container": {
			`{"ephemeralContainers":[{"resources":{"requests":{"x":"1.e+10000"}}}]}`, "too large",
		},
		"of a volume": {`{"volumes":[{"emptyDir":{"sizeLimit":"` + endless + `"}}]}`, "too large"},
		"of a claim": {`{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":
			{"storage":"` + panicked + `"}}}}}}]}`, "too large"},
		"a key that appears twice": {
			`{"overhead":{"cpu":"` + endless + `"},"overhead":{"cpu":"1"}}`, "too large",
		},
		"no object": {`"x"`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			list := &PodChaperonList{}
			data := `{"items":[{"metadata":{"name":"bad"},"spec":` + test.spec + `,"status":{"phase":"Running"}},
				{"metadata":{"name":"good"},"spec":{"containers":[{"name":"c"}]}}]}`
			if err := json.Unmarshal([]byte(data), list); err != nil {
				t.Fatal(err)
			}
			bad, good := list.Items[0], list.Items[1]
			if bad.Name != "bad" || !strings.HasPrefix(bad.Unreadable, "spec: ") ||
				!strings.Contains(bad.Unreadable, test.says) || len(bad.Spec.Containers) > 0 || bad.Status.Phase == "" {
				t.Errorf("PodChaperon %+v", bad)
			}
			if good.Unreadable != "" || len(good.Spec.Containers) != 1 {
				t.Errorf("PodChaperon %+v", good)
			}
		})
	}
}

func TestTextsThatLookLikeHugeQuantitiesAreRead(t *testing.T) {
	data := `{"metadata":{"labels":{"commit":"12e34567"}},"spec":{"nodeSelector":{"a":"1e12345"},"containers":[
		{"name":"1e12345","env":[{"name":"A","value":"` + endless + `"}],"resources":{"limits":{"cpu":"1e3"}}}]}}`
	c := &PodChaperon{Unreadable: "before"}
	if err := json.Unmarshal([]byte(data), c); err != nil || c.Unreadable != "" || len(c.Spec.Containers) != 1 {
		t.Fatalf("PodChaperon %+v, error %v", c, err)
	}
	if cpu := c.Spec.Containers[0].Resources.Limits.Cpu().Value(); cpu != 1000 || c.Labels["commit"] == "" {
		t.Errorf("PodChaperon %+v", c)
	}
}

func TestAnUnreadableStatusKeepsTheSpec(t *testing.T) {
	data := `{"spec":{"containers":[{"name":"c"}]},"status":{"resources":{"limits":{"cpu":"` + panicked + `"}}}}`
	c := &PodChaperon{}
	if err := json.Unmarshal([]byte(data), c); err != nil || !strings.HasPrefix(c.Unreadable, "status: ") ||
		len(c.Spec.Containers) != 1 || c.Status.Resources != nil {
		t.Errorf("PodChaperon %+v, error %v", c, err)
	}
}

func TestConvertersReadPodChaperonsAlike(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"overhead": map[string]any{"cpu": endless}}}
	c := &PodChaperon{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, c)
	if err != nil || !strings.Contains(c.Unreadable, "too large") {
		t.Errorf("PodChaperon %+v, error %v", c, err)
	}
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if _, ok := back["Unreadable"]; ok || back["-"] != nil || err != nil {
		t.Errorf("object %v, error %v", back, err)
	}
}

func FuzzPodChaperon(f *testing.F) {
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"` + endless + `"}}}`))
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"1E+0001"}},"status":[]}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = json.Unmarshal(data, &PodChaperon{}) // It must end, and not panic.
	})
}

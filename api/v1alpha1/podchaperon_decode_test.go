package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
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

func TestFieldsOfTheSpecThatAreNotKnownAreNamed(t *testing.T) {
	many := `{"containers":[]`
	for i := range 200 {
		many += fmt.Sprintf(`,"f%03d%s":1`, i, strings.Repeat("x", 1e3))
	}
	const odd = `{"new":{"b":1},"containers":[{"name":"c","new":[1]}],"volumes":[{"name":"v"},{"odd, \u00e9\n":1}]}`
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"none":           {`{"containers":[{"name":"c"}]}`, nil},
		"at some places": {odd, []string{"spec.new", "spec.containers[0].new", "spec.volumes[1].odd????"}},
		"many, and long": {many + "}", []string{
			"spec.f000x", "spec.f001x", "spec.f002x", "spec.f003x",
			"spec.f004x", "spec.f005x", "spec.f006x", "spec.f007x",
		}},
		"of a spec that cannot be read": {`{"new":1,"containers":"x"}`, nil},
	} {
		// The second one looks as if it had a quantity that is costly to decode.
		for _, label := range []string{"", endless} {
			t.Run(name+label, func(t *testing.T) {
				c := &PodChaperon{Unknown: []string{"before"}}
				data := `{"metadata":{"labels":{"a":"` + label + `"},"new":1},"new":1,"status":{"new":1},"spec":` +
					test.spec + `}`
				if err := json.Unmarshal([]byte(data), c); err != nil || len(c.Unknown) != len(test.want) {
					t.Fatalf("fields %q, error %v", c.Unknown, err)
				}
				for i, path := range c.Unknown {
					if !strings.HasPrefix(path, test.want[i]) || len(path) > maxUnknownPath {
						t.Errorf("path %q, want %q", path, test.want[i])
					}
				}
			})
		}
	}
}

func TestUnknownFieldsAreNotPartOfTheObject(t *testing.T) {
	c := &PodChaperon{Unknown: []string{"spec.new"}}
	c.DeepCopy().Unknown[0] = "changed"
	data, err := json.Marshal(c)
	if err != nil || strings.Contains(string(data), "new") || c.Unknown[0] != "spec.new" {
		t.Errorf("object %s, fields %q, error %v", data, c.Unknown, err)
	}
}

// BenchmarkDecode shows what it costs to name fields that are not known: each event of each PodChaperon is decoded.
func BenchmarkDecode(b *testing.B) {
	type plain PodChaperon
	container := `{"name":"c","image":"registry.example.org/app:v1","env":[{"name":"A","value":"b"}],"ports":[
		{"containerPort":80}],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[
		{"name":"v","mountPath":"/v"}],"readinessProbe":{"httpGet":{"path":"/","port":80}}}`
	condition := `{"type":"Ready","status":"True","lastTransitionTime":"2001-09-09T01:46:40Z"}`
	data := []byte(`{"metadata":{"name":"c","namespace":"n","labels":{"app":"web"}},"spec":{"containers":[` +
		container + `,` + container + `],"volumes":[{"name":"v","configMap":{"name":"c"}}]},"status":{"conditions":[` +
		condition + `,` + condition + `],"containerStatuses":[{"name":"c","ready":true}]}}`)
	for name, decode := range map[string]func() error{
		"plain":   func() error { return kjson.UnmarshalCaseSensitivePreserveInts(data, &plain{}) },
		"unknown": func() error { _, err := decode(data, &plain{}); return err },
		"whole":   func() error { return json.Unmarshal(data, &PodChaperon{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzPodChaperon(f *testing.F) {
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"` + endless + `"}}}`))
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"1E+0001"}},"status":[]}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = json.Unmarshal(data, &PodChaperon{}) // It must end, and not panic.
	})
}

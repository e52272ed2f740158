package translate_test

import (
	"encoding/hex"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestVirtualNodeName(t *testing.T) {
	for name, tc := range map[string]struct {
		key  types.NamespacedName
		want string
	}{
		"a target without hyphens is the plain join": {
			types.NamespacedName{Namespace: "default", Name: "c2"}, "admiralty-default-c2",
		},
		"a target with hyphens gets a hash": {
			types.NamespacedName{Namespace: "default", Name: "eu-west-3-1"}, "admiralty-default-eu-west-3-1-8984c76b96",
		},
		"a cluster target without hyphens is plain": {types.NamespacedName{Name: "eu"}, "admiralty-eu"},
		"a cluster target with hyphens gets a hash": {
			types.NamespacedName{Name: "eu-west"}, "admiralty-eu-west-799e4a5d3a",
		},
		"a namespace with hyphens gets a hash": {
			types.NamespacedName{Namespace: "a-b", Name: "c"},
			"admiralty-a-b-c-" + translate.TargetHash(types.NamespacedName{Namespace: "a-b", Name: "c"}),
		},
		"a name that fits exactly is not cut": {
			types.NamespacedName{Name: strings.Repeat("a", 243)}, "admiralty-" + strings.Repeat("a", 243),
		},
		"a name one too long is cut to 242 and gets a hash": {
			types.NamespacedName{Name: strings.Repeat("a", 244)},
			"admiralty-" + strings.Repeat("a", 232) + "-" +
				translate.TargetHash(types.NamespacedName{Name: strings.Repeat("a", 244)}),
		},
		"a name cut at separators loses them": {
			types.NamespacedName{Name: strings.Repeat("a", 230) + "-.--" + strings.Repeat("b", 9)},
			"admiralty-" + strings.Repeat("a", 230) + "-" + translate.TargetHash(types.NamespacedName{
				Name: strings.Repeat("a", 230) + "-.--" + strings.Repeat("b", 9),
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := translate.VirtualNodeName(tc.key)
			if got != tc.want {
				t.Errorf("VirtualNodeName(%v) = %q, want %q", tc.key, got, tc.want)
			}
			if msgs := validation.IsDNS1123Subdomain(got); len(msgs) > 0 {
				t.Errorf("%q is not a valid name: %v", got, msgs)
			}
		})
	}
}

func TestVirtualNodeNamesOfAmbiguousTargetsDiffer(t *testing.T) {
	seen := map[string]types.NamespacedName{}
	for _, key := range []types.NamespacedName{
		{Namespace: "a", Name: "b-c"}, {Namespace: "a-b", Name: "c"}, {Name: "a-b-c"}, {Name: "c"},
		{Namespace: "a", Name: "b"}, {Name: "a-b"},
	} {
		name := translate.VirtualNodeName(key)
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %v share the virtual node %q", key, other, name)
		}
		seen[name] = key
	}
}

func TestTargetHashesOfDifferentTargetsDiffer(t *testing.T) {
	target := translate.TargetHash(types.NamespacedName{Namespace: "default", Name: "c2"})
	clusterTarget := translate.TargetHash(types.NamespacedName{Name: "c2"})
	if target == clusterTarget || len(target) != 10 || len(validation.IsValidLabelValue(target)) > 0 {
		t.Errorf("TargetHash of default/c2 is %q, of c2 %q: want different label values of 10 characters", target,
			clusterTarget)
	}
	if got := translate.TargetHash(types.NamespacedName{Name: "eu-west"}); got != "799e4a5d3a" {
		t.Errorf("TargetHash of eu-west = %q, want that of its virtual node", got)
	}
}

func TestTargetIDsHave160Bits(t *testing.T) {
	seen := map[string]types.NamespacedName{}
	for _, key := range []types.NamespacedName{
		{Name: "c2"}, {Namespace: "default", Name: "c2"}, {Namespace: "c2", Name: "default"}, {Name: "default-c2"},
		{Name: strings.Repeat("a", 253)}, {Namespace: strings.Repeat("a", 63), Name: strings.Repeat("b", 253)},
	} {
		id := translate.TargetID(key)
		if bits, err := hex.DecodeString(id); err != nil || len(bits) != 160/8 {
			t.Errorf("TargetID of %v is %q, want 160 bits in hexadecimal digits", key, id)
		}
		if messages := validation.IsValidLabelValue(id); len(messages) > 0 {
			t.Errorf("TargetID of %v is %q, which does not fit a label: %v", key, id, messages)
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%v and %v share the TargetID %q", key, other, id)
		}
		if translate.HashOfTargetID(id) != translate.TargetHash(key) {
			t.Errorf("TargetID of %v is %q, which does not begin with the TargetHash", key, id)
		}
		seen[id] = key
	}
}

func TestATargetIDDecidesBeforeTheHash(t *testing.T) {
	id := translate.TargetID(types.NamespacedName{Name: "c2"})
	other := translate.HashOfTargetID(id) + translate.TargetID(types.NamespacedName{Name: "c3"})[10:]
	hash := translate.HashOfTargetID(id)
	for name, test := range map[string]struct {
		id, hash string
		want     bool
	}{
		"the ID":                                {id: id, hash: hash, want: true},
		"the ID alone":                          {id: id, want: true},
		"another target's ID, of the same hash": {id: other, hash: hash},
		"the hash alone":                        {hash: hash, want: true},
		"the hash, and a user's value":          {id: "7", hash: hash, want: true},
		"another hash":                          {hash: "0123456789"},
		"nothing":                               {},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{v1alpha1.LabelTargetID: test.id, v1alpha1.LabelTargetHash: test.hash}
			if got := translate.MadeFor(labels, id); got != test.want {
				t.Errorf("MadeFor is %v, want %v", got, test.want)
			}
		})
	}
}

func TestDelegateName(t *testing.T) {
	proxy := func(name, uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	}
	const uid = "5f0e9f0c-3c53-4d0e-b3b1-0c4f8d3a4a11"
	nginx := translate.DelegateName(proxy("nginx-5466f8ddf7-vqsgk", uid))
	if suffix, ok := strings.CutPrefix(nginx, "nginx-5466f8ddf7-vqsgk-"); !ok || len(suffix) != 5 {
		t.Errorf("DelegateName = %q, want the proxy's name and five characters", nginx)
	}
	if again := translate.DelegateName(proxy("nginx-5466f8ddf7-vqsgk", uid)); again != nginx {
		t.Errorf("DelegateName is %q once and %q again", nginx, again)
	}
	if other := translate.DelegateName(proxy("nginx-5466f8ddf7-vqsgk", "another-uid")); other == nginx {
		t.Errorf("a proxy of the same name with another UID has the same delegate name %q", other)
	}
	for _, name := range []string{
		strings.Repeat("a", 247), strings.Repeat("a", 253), strings.Repeat("a", 245) + "-.-" + strings.Repeat("b", 5),
	} {
		long := translate.DelegateName(proxy(name, uid))
		if msgs := validation.IsDNS1123Subdomain(long); len(msgs) > 0 {
			t.Errorf("DelegateName of a name of %d characters = %q: %v", len(name), long, msgs)
		}
	}
}

func TestDelegateNamesUseAllLetters(t *testing.T) {
	letters := map[rune]bool{}
	for i := range 1000 {
		name := translate.DelegateName(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "x", UID: types.UID(strings.Repeat("u", i))},
		})
		for _, letter := range name[2:] {
			letters[letter] = true
		}
	}
	if len(letters) != 27 {
		t.Errorf("1000 suffixes use %d letters, want 27", len(letters))
	}
}

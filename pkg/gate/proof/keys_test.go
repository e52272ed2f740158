package proof

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func claim() Claim {
	return Claim{
		UID:    "5f0e9f0c-3c53-4d0e-b3b1-0c4f8d3a4a11",
		Proxy:  types.NamespacedName{Namespace: "shop", Name: "web-0"},
		Target: types.NamespacedName{Namespace: "shop", Name: "c2"},
	}
}

func TestAProofIsForOnePodAndOneTarget(t *testing.T) {
	keys := &Keys{all: []key{newKey(start)}}
	proof := keys.Sign(claim())
	if !keys.Verify(claim(), proof) {
		t.Fatalf("the proof %q is refused for its own claim", proof)
	}
	other := &Keys{all: []key{newKey(start)}}
	parts := strings.Split(proof, ".")
	for name, test := range map[string]struct {
		claim func(*Claim)
		proof string
	}{
		"another UID":                   {claim: func(c *Claim) { c.UID = "6" }},
		"another namespace":             {claim: func(c *Claim) { c.Proxy.Namespace = "bank" }},
		"another name":                  {claim: func(c *Claim) { c.Proxy.Name = "web-1" }},
		"another target":                {claim: func(c *Claim) { c.Target.Name = "c3" }},
		"a target of another namespace": {claim: func(c *Claim) { c.Target.Namespace = "bank" }},
		"a ClusterTarget of that name":  {claim: func(c *Claim) { c.Target.Namespace = "" }},
		"fields that are joined alike": {claim: func(c *Claim) {
			c.Proxy = types.NamespacedName{Namespace: "sho", Name: "pweb-0"}
		}},
		"the proxy's namespace and the target's changed places": {claim: func(c *Claim) {
			c.Proxy, c.Target = c.Target, c.Proxy
		}},
		"no proof":                   {proof: " "},
		"only a version":             {proof: "v1"},
		"no MAC":                     {proof: parts[0] + "." + parts[1] + "."},
		"a MAC that is cut":          {proof: proof[:len(proof)-1]},
		"a MAC of which more is cut": {proof: proof[:len(proof)-12]},
		"something after the MAC":    {proof: proof + "A"},
		"another version":            {proof: "v2." + parts[1] + "." + parts[2]},
		"another key's ID":           {proof: "v1." + other.all[0].id() + "." + parts[2]},
		"another key":                {proof: other.Sign(claim())},
		"another key with our ID":    {proof: "v1." + parts[1] + "." + strings.Split(other.Sign(claim()), ".")[2]},
	} {
		t.Run(name, func(t *testing.T) {
			claim, given := claim(), proof
			if test.claim != nil {
				test.claim(&claim)
			}
			if test.proof != "" {
				given = strings.TrimSpace(test.proof)
			}
			if keys.Verify(claim, given) {
				t.Errorf("the proof %q is accepted for %+v, want it refused", given, claim)
			}
		})
	}
}

func TestAProofIsTextThatFitsAnAnnotation(t *testing.T) {
	keys := &Keys{all: []key{newKey(start)}}
	want := regexp.MustCompile(`^v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]{22}$`)
	if proof := keys.Sign(claim()); !want.MatchString(proof) {
		t.Errorf("the proof is %q, want %s", proof, want)
	}
}

func TestTheFirstKeySignsAndAllKeysVerify(t *testing.T) {
	older, newer := newKey(start), newKey(start.Add(time.Hour))
	keys := &Keys{all: []key{newer, older}}
	for name, single := range map[string]key{"older": older, "newer": newer} {
		proof := (&Keys{all: []key{single}}).Sign(claim())
		if !keys.Verify(claim(), proof) {
			t.Errorf("the proof of the %s key is refused", name)
		}
		if signs := proof == keys.Sign(claim()); signs != (name == "newer") {
			t.Errorf("the %s key signs: %v", name, signs)
		}
	}
	if want := older.created.Add(skew); !keys.CreatedAt().Equal(want) {
		t.Errorf("CreatedAt is %s, want %s: every PodChaperon since the first key has a proof", keys.CreatedAt(), want)
	}
}

func TestTheSecretKeepsKeysAndTheirTime(t *testing.T) {
	older, newer := newKey(start), newKey(start.Add(time.Hour))
	keys := &Keys{all: []key{newer, older}}
	read, err := parse(append(newer.encode(), older.encode()...))
	if err != nil {
		t.Fatal(err)
	}
	if !read.Verify(claim(), keys.Sign(claim())) || read.Sign(claim()) != keys.Sign(claim()) ||
		!read.CreatedAt().Equal(keys.CreatedAt()) {
		t.Error("the keys that are read differ from those that were written")
	}
}

func TestASecretWithoutKeysHasNone(t *testing.T) {
	for _, data := range []string{"", "\n", " \n\n"} {
		if keys, err := parse([]byte(data)); keys != nil || err != nil {
			t.Errorf("of %q, got %v and error %v", data, keys, err)
		}
	}
}

func TestABrokenSecretSaysWhereAndRevealsNothing(t *testing.T) {
	good := newKey(start).encode()
	line := bytes.Fields(good)
	for name, broken := range map[string][]byte{
		"a key without a time":  line[1],
		"a time without a key":  line[0],
		"another time":          append([]byte("yesterday "), line[1]...),
		"a key that is cut":     good[:len(good)-9],
		"a key not in base64":   append(bytes.TrimSpace(bytes.Clone(good)), "!"...),
		"a third word":          append(bytes.TrimSpace(bytes.Clone(good)), " x"...),
		"a key of another size": []byte(string(line[0]) + " AAAA"),
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := parse(append(bytes.Clone(good), broken...))
			if err == nil {
				t.Fatalf("got %d keys, want an error", len(keys.all))
			}
			if !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), string(line[1][:8])) {
				t.Errorf("the error is %q, want the line's number, and nothing of the key", err)
			}
		})
	}
}

func TestKeysDiffer(t *testing.T) {
	if one, other := newKey(start), newKey(start); bytes.Equal(one.secret, other.secret) || one.id() == other.id() {
		t.Error("two new keys are equal")
	}
}

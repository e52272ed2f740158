package v1alpha1

import (
	"strings"
	"testing"
)

func TestAllowsLabel(t *testing.T) {
	tenants := Tenants{NodeLabels: []string{"example.com/gpu", "example.org/*"}}
	for key, want := range map[string]bool{
		"example.com/gpu": true, "example.org/any": true, "example.com/gpus": false, "gpu": false,
		"topology.kubernetes.io/zone": false, "example.org": false,
	} {
		if got := tenants.AllowsLabel(key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
	if (&Tenants{}).AllowsLabel("gpu") {
		t.Error("labels are allowed by default")
	}
	if !(&Tenants{NodeLabels: []string{"*"}}).AllowsLabel("gpu") {
		t.Error("an asterisk does not stand for all keys")
	}
}

func TestLimitsOfTenantsAreValidated(t *testing.T) {
	for name, test := range map[string]struct{ lines, want string }{
		"good":       {`{nodeLabels: ["*", "a/*", "a/b"], allowedPodCIDRs: ["10.0.0.0/8", "fd00::/8"]}`, ""},
		"bad label":  {`{nodeLabels: ["a/*/b"]}`, "tenants.nodeLabels[0]"},
		"bad range":  {`{allowedPodCIDRs: ["10.0.0.0/8", "10.0.0.1"]}`, "tenants.allowedPodCIDRs[1]"},
		"misspelled": {`{allowProxies: true}`, "allowProxies"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte("apiVersion: " + APIVersion + "\nkind: " + Kind +
				"\nwebhook: {certDir: /tmp}\ntenants: " + test.lines))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error about %q", err, test.want)
			}
		})
	}
}

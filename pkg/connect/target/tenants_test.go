package target

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// ownAddress is the only address that the source uses, if it is valid.
type ownAddress struct{ netip.Addr }

func (ownAddress) Wait(context.Context) error { return nil }

func (own ownAddress) Check(address netip.Addr) error {
	if address != own.Addr {
		return nil
	}
	return &wire.AddressError{Address: address.String(), Reason: "that of a node", Value: addresses.AllowOwn}
}

func TestWhereTargetsOfTenantsMustNotLead(t *testing.T) {
	ofTenant, ofAdministrator := types.NamespacedName{Namespace: "a", Name: "c2"}, types.NamespacedName{Name: "c2"}
	loopback, own, other := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.9"),
		netip.MustParseAddr("10.0.0.1")
	enforced := func(change func(*configv1alpha1.Tenants)) configv1alpha1.Tenants {
		rules := configv1alpha1.Tenants{Enforce: true}
		change(&rules)
		return rules
	}
	all := enforced(func(*configv1alpha1.Tenants) {})
	allowLoopback := enforced(func(rules *configv1alpha1.Tenants) { rules.AllowLoopback = true })
	allowOwn := enforced(func(rules *configv1alpha1.Tenants) { rules.AllowOwnAddresses = true })
	for name, test := range map[string]struct {
		key             types.NamespacedName
		self            bool
		rules           configv1alpha1.Tenants
		address         netip.Addr
		refused, warned string
	}{
		"loopback in this release":    {key: ofTenant, address: loopback, warned: wire.AllowLoopback},
		"loopback, enforced":          {key: ofTenant, rules: all, address: loopback, refused: wire.AllowLoopback},
		"loopback, allowed":           {key: ofTenant, rules: allowLoopback, address: loopback},
		"an own one in this release":  {key: ofTenant, address: own, warned: addresses.AllowOwn},
		"an own one, enforced":        {key: ofTenant, rules: all, address: own, refused: addresses.AllowOwn},
		"an own one, allowed":         {key: ofTenant, rules: allowOwn, address: own},
		"one of both is not another":  {key: ofTenant, rules: allowLoopback, address: own, refused: addresses.AllowOwn},
		"and the other way":           {key: ofTenant, rules: allowOwn, address: loopback, refused: wire.AllowLoopback},
		"another address":             {key: ofTenant, address: other},
		"the source itself":           {key: ofTenant, self: true, rules: all, address: loopback},
		"loopback, of administrators": {key: ofAdministrator, rules: all, address: loopback},
		"an own, of administrators":   {key: ofAdministrator, rules: all, address: own},
	} {
		t.Run(name, func(t *testing.T) {
			l := &loop{
				options: Options{Tenants: test.rules, Addresses: ownAddress{own}}, key: test.key,
				attempt: attempt{warned: &atomic.Pointer[wire.AddressError]{}},
			}
			refused, warned := "", ""
			if check := l.dialRules(want{self: test.self}).Check; check != nil {
				if err := (*wire.AddressError)(nil); errors.As(check(test.address), &err) {
					refused = err.Value
				}
			}
			if err := l.warnedAddress(); err != nil {
				warned = err.Value
			}
			if refused != test.refused || warned != test.warned {
				t.Errorf("refused by %q, warned about %q", refused, warned)
			}
		})
	}
}

func TestKubeconfigsOfTenantsAreLimited(t *testing.T) {
	insecure := strings.Replace(kubeconfigOfC2, `"https://c2.example"`,
		`"https://c2.example", insecure-skip-tls-verify: true`, 1)
	for name, test := range map[string]struct {
		limits          *configv1alpha1.Tenants
		kubeconfig      string
		failure, warned string
	}{
		"of a ClusterTarget": {nil, insecure, "", ""},
		"in this release":    {&configv1alpha1.Tenants{}, insecure, "", "tenants.allowInsecure"},
		"enforced":           {&configv1alpha1.Tenants{Enforce: true}, insecure, "tenants.allowInsecure", ""},
		"allowed":            {&configv1alpha1.Tenants{Enforce: true, AllowInsecure: true}, insecure, "", ""},
		"harmless":           {&configv1alpha1.Tenants{Enforce: true}, kubeconfigOfC2, "", ""},
		"broken anyway": {
			&configv1alpha1.Tenants{}, strings.Replace(insecure, "token: secret-token", "tokenFile: /x", 1),
			"tokenFile", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := decideConnection(refer("", ""), holding("config", test.kubeconfig), nil, test.limits)
			failure := ""
			if w.failure != nil {
				failure = w.failure.Message
			}
			if !strings.Contains(failure, test.failure) || (failure == "") != (test.failure == "") {
				t.Errorf("failure: %s", failure)
			}
			if !strings.Contains(w.warning, test.warned) || (w.warning == "") != (test.warned == "") {
				t.Errorf("warning: %s", w.warning)
			}
		})
	}
}

func TestTargetsAreWarnedAboutLosses(t *testing.T) {
	connectedFinding := finding{condition: connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "")}
	with := func(change func(*finding)) finding {
		f := connectedFinding
		change(&f)
		return f
	}
	ranges := []string{"10.0.0.0/8"}
	labelled := with(func(f *finding) { f.labels = "a=1\nb=2\nc=3\nd=4\nzone=x\n" })
	for name, test := range map[string]struct {
		key      types.NamespacedName
		limits   configv1alpha1.Tenants
		want     want
		excluded string
		found    finding
		warned   bool
		texts    []string
	}{
		"nothing is lost": {
			limits: configv1alpha1.Tenants{AllowedPodCIDRs: ranges}, found: connectedFinding,
		},
		"addresses":                            {found: connectedFinding, texts: []string{"tenants.allowedPodCIDRs"}},
		"the source's own addresses are known": {want: want{self: true}, found: connectedFinding},
		"labels": {
			limits: configv1alpha1.Tenants{AllowedPodCIDRs: ranges}, found: labelled,
			texts: []string{"a, b, c and 2 more", "tenants.nodeLabels"},
		},
		"labels that are excluded": {
			limits: configv1alpha1.Tenants{AllowedPodCIDRs: ranges}, found: labelled, excluded: "^([a-c]=|d=4|zone)",
		},
		"an address and a kubeconfig": {
			want: want{self: true, warning: "reasons"},
			found: with(func(f *finding) {
				f.warned = wire.AddressError{Address: "127.0.0.1", Reason: "loopback", Value: "tenants.x"}
			}),
			texts: []string{"127.0.0.1 is loopback", "tenants.x", "kubeconfig, because reasons"},
		},
		"the warning came true": {
			limits: configv1alpha1.Tenants{Enforce: true}, found: labelled, warned: true,
			texts: []string{"within the limits"},
		},
		"nothing is lost any more": {
			want: want{self: true}, found: connectedFinding, warned: true, texts: []string{"within the limits"},
		},
		"nobody knows yet": {},
		"enforced":         {limits: configv1alpha1.Tenants{Enforce: true}, found: labelled},
		"a ClusterTarget":  {key: types.NamespacedName{Name: "c2"}, found: labelled},
	} {
		t.Run(name, func(t *testing.T) {
			if test.key.Name == "" {
				test.key = types.NamespacedName{Namespace: "a", Name: "c2"}
			}
			object := targetkind.New(test.key)
			object.SetNamespace(test.key.Namespace)
			if target, ok := object.(*v1alpha1.Target); ok && test.warned {
				target.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRestricted, Status: "False"}}
			}
			r := &Reconciler{options: Options{Tenants: test.limits}}
			spec := v1alpha1.ClusterTargetSpec{ExcludedLabelsRegexp: test.excluded}
			got := r.warnings(object, spec, test.want, test.found)
			if len(got) != min(1, len(test.texts)) {
				t.Fatalf("got %+v", got)
			}
			for _, text := range test.texts {
				if !strings.Contains(got[0].Message, text) {
					t.Errorf("%q says nothing about %q", got[0].Message, text)
				}
			}
		})
	}
}

func TestLabelsThatAVirtualNodeLoses(t *testing.T) {
	l := &loop{key: types.NamespacedName{Namespace: "a", Name: "c2"}, engaged: &engagement{labels: map[string]string{
		"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "x", "gpu": "a100", "team": "b",
	}}}
	l.options.Tenants.NodeLabels = []string{"gpu"}
	if got := l.lostLabels(); got != "team=b\ntopology.kubernetes.io/zone=x\n" {
		t.Errorf("got %q", got)
	}
	l.options.Tenants.Enforce = true
	if got := l.lostLabels(); got != "" {
		t.Errorf("got %q, but they are lost already", got)
	}
}

func TestALongListIsCutShort(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for count, want := range map[int]string{1: "a", 3: "a, b, c", 4: "a, b, c and 1 more", 5: "a, b, c and 2 more"} {
		if got := someOf(names[:count]); got != want {
			t.Errorf("%d names: %q", count, got)
		}
	}
}

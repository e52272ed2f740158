package target

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const kubeconfigOfC2 = `
apiVersion: v1
kind: Config
current-context: x
contexts:
- {name: x, context: {cluster: c, user: u}}
- {name: other, context: {cluster: c, user: u}}
clusters:
- {name: c, cluster: {server: "https://c2.example"}}
users:
- {name: u, user: {token: secret-token}}
`

func refer(key, context string) v1alpha1.ClusterTargetSpec {
	return v1alpha1.ClusterTargetSpec{KubeconfigSecret: &v1alpha1.ClusterKubeconfigSecret{
		Namespace:        "admiralty",
		KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "c2", Key: key, Context: context},
	}}
}

func holding(key, value string) secretState {
	return secretState{known: true, exists: true, data: map[string][]byte{key: []byte(value)}}
}

func TestDecideFindsWhatNeedsNoTrying(t *testing.T) {
	for name, test := range map[string]struct {
		spec         v1alpha1.ClusterTargetSpec
		secret       secretState
		reason, text string
	}{
		"a Secret that does not exist": {
			refer("", ""), secretState{known: true}, v1alpha1.ReasonSecretNotFound,
			"Secret admiralty/c2 does not exist; create it with a kubeconfig under the key config, " +
				"or run kubectl multicluster connect",
		},
		"a Secret that the manager may not read": {
			refer("", ""), secretState{known: true, err: errors.New("secrets is forbidden")},
			v1alpha1.ReasonSecretNotFound, "rights get, list and watch",
		},
		"a Secret without the key": {
			refer("k", ""), holding("config", kubeconfigOfC2), v1alpha1.ReasonSecretKeyNotFound,
			"has no key k, but config;",
		},
		"an empty Secret": {
			refer("", ""), secretState{known: true, exists: true}, v1alpha1.ReasonSecretKeyNotFound,
			"has no key config, but none at all;",
		},
		"a kubeconfig that cannot be used": {
			refer("", "z"), holding("config", kubeconfigOfC2), v1alpha1.ReasonInvalidKubeconfig,
			`Secret admiralty/c2, key config, cannot be used: it has no context "z"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := decideConnection(test.spec, test.secret, &rest.Config{}, nil)
			if w.failure == nil || w.failure.Reason != test.reason || !strings.Contains(w.failure.Message, test.text) {
				t.Errorf("got %+v", w.failure)
			}
		})
	}
}

func TestDecideConnects(t *testing.T) {
	w := decideConnection(refer("", ""), holding("config", kubeconfigOfC2), &rest.Config{}, nil)
	if w.failure != nil || w.config.Host != "https://c2.example" {
		t.Errorf("got %+v", w.failure)
	}
	self := &rest.Config{Host: "https://self.example"}
	w = decideConnection(v1alpha1.ClusterTargetSpec{Self: true}, secretState{}, self, nil)
	if w.failure != nil || w.config.Host != self.Host || w.config == self {
		t.Errorf("self leads to %+v", w)
	}
}

func TestFingerprintsDifferWhereConnectionsDo(t *testing.T) {
	base := decideConnection(refer("", ""), holding("config", kubeconfigOfC2), nil, nil)
	for name, test := range map[string]struct {
		other want
		same  bool
	}{
		"the same content under another key": {
			decideConnection(refer("k", ""), holding("k", kubeconfigOfC2), nil, nil), true,
		},
		"another token": {
			decideConnection(
				refer("", ""), holding("config", strings.Replace(kubeconfigOfC2, "secret", "new", 1)), nil, nil,
			),
			false,
		},
		"another context": {decideConnection(refer("", "other"), holding("config", kubeconfigOfC2), nil, nil), false},
		"the target is the source itself": {
			decideConnection(v1alpha1.ClusterTargetSpec{Self: true}, secretState{}, &rest.Config{}, nil), false,
		},
		"another cluster is expected": {
			decideConnection(pinned(refer("", ""), "c3"), holding("config", kubeconfigOfC2), nil, nil), false,
		},
		"there is no Secret": {decideConnection(refer("", ""), secretState{known: true}, nil, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			if (base.fingerprint == test.other.fingerprint) != test.same {
				t.Errorf("same is %v, want %v", !test.same, test.same)
			}
		})
	}
}

func pinned(spec v1alpha1.ClusterTargetSpec, id string) v1alpha1.ClusterTargetSpec {
	spec.ClusterID = id
	return spec
}

func TestAConnectionGoesOnWithoutItsSecret(t *testing.T) {
	good := decideConnection(refer("", ""), holding("config", kubeconfigOfC2), &rest.Config{}, nil)
	gone := decideConnection(refer("", ""), secretState{known: true}, nil, nil)
	for name, test := range map[string]struct {
		next   want
		last   want
		worked bool
		goesOn bool
	}{
		"the Secret was deleted":                           {gone, good, true, true},
		"the Secret was deleted before its content worked": {gone, good, false, false},
		"the key was removed": {
			decideConnection(refer("", ""), holding("k", ""), nil, nil), good, true, true,
		},
		"the kubeconfig was broken": {
			decideConnection(refer("", ""), holding("config", "hello"), nil, nil), good, true, true,
		},
		"the manager's right to read it was taken": {
			decideConnection(refer("", ""), secretState{known: true, err: errors.New("forbidden")}, nil, nil),
			good, true, true,
		},
		"the content changed": {
			decideConnection(refer("", "other"), holding("config", kubeconfigOfC2), nil, nil), good, true, false,
		},
		"the target shall use another key": {
			decideConnection(refer("k", ""), secretState{known: true}, nil, nil), good, true, false,
		},
		"the target shall be another cluster": {
			decideConnection(pinned(refer("", ""), "c3"), secretState{known: true}, nil, nil), good, true, false,
		},
		"the target was the source itself": {
			gone, decideConnection(v1alpha1.ClusterTargetSpec{Self: true}, secretState{}, &rest.Config{}, nil),
			true, false,
		},
		"the target was gone": {gone, want{fingerprint: "gone", gone: true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.next.goOn(test.last, test.worked)
			expected := test.next.fingerprint
			if test.goesOn {
				expected = test.last.fingerprint
			}
			if got.fingerprint != expected || (got.unusable.Type != "") != test.goesOn {
				t.Errorf("got %q, %+v", got.fingerprint, got.unusable)
			}
			if test.goesOn && (got.failure != nil || got.unusable.Reason != test.next.failure.Reason ||
				!strings.Contains(got.unusable.Message, test.next.failure.Message)) {
				t.Errorf("got %+v", got.unusable)
			}
		})
	}
}

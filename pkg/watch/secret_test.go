package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func TestASecretIsKnownAsItWasSeenLast(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "c2"}}
	for name, test := range map[string]struct {
		has  []*corev1.Secret
		want *corev1.Secret
	}{
		"it exists":         {[]*corev1.Secret{secret}, secret},
		"it does not exist": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSecret(fake.NewClientset(), types.NamespacedName{Namespace: "admiralty", Name: "c2"}, func() {})
			for _, secret := range test.has {
				must(t, s.informer.GetStore().Add(secret))
			}
			if diff := cmp.Diff(test.want, s.Last()); diff != "" {
				t.Errorf("last (-want +got):\n%s", diff)
			}
		})
	}
}

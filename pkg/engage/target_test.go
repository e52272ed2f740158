package engage

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// upgradedAt is a gate.Verifier of a source that was upgraded then.
type upgradedAt time.Time

func (upgradedAt) Verify(proof.Claim, string) bool { return false }
func (u upgradedAt) CreatedAt() time.Time          { return time.Time(u) }

// TestTheShortLabelCountsForCopiesOfItsTime has copies without the label target-id. A name with the same short label
// can be found.
func TestTheShortLabelCountsForCopiesOfItsTime(t *testing.T) {
	upgrade := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	key := types.NamespacedName{Name: "eu"}
	target := &Target{Key: key, Gate: &gate.Gate{Verifier: upgradedAt(upgrade)}}
	for name, test := range map[string]struct {
		age  time.Duration // before the upgrade
		want bool
	}{
		"an older copy": {time.Second, true}, "a younger copy": {-time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			copied := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				CreationTimestamp: metav1.NewTime(upgrade.Add(-test.age)),
				Labels:            map[string]string{v1alpha1.LabelTargetHash: translate.TargetHash(key)},
			}}
			if got := target.Made(copied); got != test.want {
				t.Errorf("it was made for the target: %v, want %v", got, test.want)
			}
		})
	}
}

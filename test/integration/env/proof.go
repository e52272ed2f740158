package env

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
)

// Sign signs a claim so that the gates of targets accept it. Anybody can read the proof.
func Sign(claim proof.Claim) (string, error) { return fmt.Sprintf("%+v", claim), nil }

// Verifier verifies what Sign has signed, since some time. Before that time there were no proofs.
type Verifier time.Time

// Verify says whether Sign has signed the claim.
func (Verifier) Verify(uid types.UID, proxy, target types.NamespacedName, proved string) bool {
	want, _ := Sign(proof.Claim{UID: uid, Proxy: proxy, Target: target})
	return proved == want
}

// CreatedAt returns the time.
func (v Verifier) CreatedAt() time.Time { return time.Time(v) }

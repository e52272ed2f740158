package env

import (
	"fmt"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
)

// Sign signs a claim so that the gates of targets accept it. Anybody can read the proof.
func Sign(claim proof.Claim) (string, error) { return fmt.Sprintf("%+v", claim), nil }

// Verifier verifies what Sign has signed. There never was another key.
type Verifier struct{}

// Verify says whether Sign has signed the claim.
func (Verifier) Verify(claim proof.Claim, proved string) bool {
	want, _ := Sign(claim)
	return proved == want
}

// CreatedAt is long ago.
func (Verifier) CreatedAt() time.Time { return time.Time{} }

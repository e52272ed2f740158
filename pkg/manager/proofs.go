package manager

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
)

// keepProofs adds the keeper of the key with which the scheduler signs.
func (w *wiring) keepProofs() error {
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	w.proofs = proof.New(proof.Options{
		Client: clientset,
		Secret: types.NamespacedName{Namespace: w.pod.Namespace, Name: w.config.Proof.SecretName},
		Clock:  w.clock,
		Logger: w.mgr.GetLogger().WithName("proofs"),
	})
	return w.mgr.Add(w.proofs)
}

// verifier returns a Verifier with the keys of the time of each call, once there is a key.
func (w *wiring) verifier() (gate.Verifier, error) {
	if _, err := w.proofs.Keys(); err != nil {
		return nil, err
	}
	return verifier{w.proofs}, nil
}

// verifier is a Keeper that has keys, as a gate sees it.
type verifier struct{ keeper *proof.Keeper }

// Verify says whether the proof is ours.
func (v verifier) Verify(claim proof.Claim, proved string) bool {
	keys, err := v.keeper.Keys()
	return err == nil && keys.Verify(claim, proved)
}

// CreatedAt returns the time since which every PodChaperon has a proof.
func (v verifier) CreatedAt() time.Time {
	keys, err := v.keeper.Keys()
	if err != nil {
		return time.Time{}
	}
	return keys.CreatedAt()
}

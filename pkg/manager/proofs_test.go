package manager

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
)

func TestProofsAreVerifiedOnceThereIsAKey(t *testing.T) {
	keeper := proof.New(proof.Options{
		Client: fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "proof"}}),
		Secret: types.NamespacedName{Namespace: "admiralty", Name: "proof"}, Clock: clock.RealClock{},
		Logger: logr.Discard(),
	})
	w := wiring{proofs: keeper}
	if _, err := w.verifier(); err == nil {
		t.Error("there is a verifier without a key")
	}
	claim := proof.Claim{UID: "a"}
	early := verifier{keeper}
	if early.Verify(claim, "") || !early.CreatedAt().IsZero() {
		t.Error("without a key, a proof is believed, or all PodChaperons have one")
	}
	began := time.Now().Add(-time.Second) // The time of a key has no fractions of seconds.
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	eventually(t, func() error { _, err := keeper.Keys(); return err })
	v, err := w.verifier()
	if err != nil {
		t.Fatal(err)
	}
	proved, err := keeper.Sign(claim)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Verify(claim, proved) || v.Verify(proof.Claim{UID: "b"}, proved) {
		t.Error("our proof is not believed, or that of something else is")
	}
	if v.CreatedAt().Before(began) {
		t.Errorf("the key was made at %s", v.CreatedAt())
	}
}

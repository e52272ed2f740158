package garbagecollection

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

func TestACopiedServiceAccountKeepsWhatWasAddedToItOverNight(t *testing.T) {
	const ours = `{"f:metadata":{"f:annotations":{".":{},"f:multicluster.admiralty.io/followed-by":{}},` +
		`"f:labels":{".":{},"f:multicluster.admiralty.io/parent-cluster-id":{}}},"f:imagePullSecrets":{}}`
	for name, test := range map[string]struct {
		manager, fields string
		stays           bool
	}{
		"a cloud role": {
			"kubectl-annotate", `{"f:metadata":{"f:annotations":{"f:eks.amazonaws.com/role-arn":{}}}}`, true,
		},
		"a label of a cloud": {
			"kubectl-label", `{"f:metadata":{"f:labels":{"f:azure.workload.identity/use":{}}}}`, true,
		},
		"a pull secret": {"kubectl-patch", `{"f:imagePullSecrets":{}}`, true},
		"a mark that somebody gave back": {
			"kubectl-annotate",
			`{"f:metadata":{"f:annotations":{".":{},"f:multicluster.admiralty.io/followed-by":{}}}}`, false,
		},
		"a pull secret that a controller gives every account": {
			"openshift-controller-manager", `{"f:imagePullSecrets":{},"f:secrets":{}}`, false,
		},
		"nothing but what the source wrote": {v1alpha1.FieldOwner, ours, false},
		"fields that nobody can read":       {"kubectl", `{`, false},
		"metadata that nobody can read":     {"kubectl", `{"f:metadata":1}`, false},
		"no fields":                         {"kubectl", ``, false},
	} {
		t.Run(name, func(t *testing.T) {
			account := copyOf("c1", "robot")
			account.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: v1alpha1.FieldOwner, FieldsV1: metav1.NewFieldsV1(ours)}, {Manager: test.manager},
			}
			if test.fields != "" {
				account.ManagedFields[1].FieldsV1 = metav1.NewFieldsV1(test.fields)
			}
			slim, err := slimAccount(account)
			if err == nil {
				slim, err = slimAccount(slim) // Informers may do so twice.
			}
			kept, ok := slim.(*metav1.PartialObjectMetadata)
			if err != nil || !ok || kept.ManagedFields != nil {
				t.Fatalf("kept %v, error %v", slim, err)
			}
			f := newFixture(t, string(needs.ServiceAccounts), kept)
			if test.stays {
				f.reconcile(0)
			} else {
				f.reconcile(2 * time.Minute)
			}
			f.clock.Step(time.Hour)
			f.reconcile(0)
			f.wantDeleted(!test.stays)
		})
	}
	if got, err := slimAccount("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("something else becomes %v, error %v", got, err)
	}
}

func TestOnlyServiceAccountsStayForWhatWasAdded(t *testing.T) {
	secret := copyOf("c1", "db")
	secret.Annotations[annotationAdditions] = "true"
	newFixture(t, string(needs.Secrets), secret).reconcile(2 * time.Minute)
}

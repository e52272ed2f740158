package targetkind_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestTheCommandEndsTheDelegatesOfTheDeletedTargetOnly(t *testing.T) {
	for where, key := range map[string]types.NamespacedName{
		"-A": {Name: "c2"}, "-n team-a": {Namespace: "team-a", Name: "c2"},
	} {
		want := "kubectl --context CONTEXT delete podchaperons " + where +
			" -l multicluster.admiralty.io/parent-cluster-id=c1-id,multicluster.admiralty.io/target-hash=" +
			translate.TargetHash(key)
		if got := targetkind.EndCommand(key, "c1-id"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

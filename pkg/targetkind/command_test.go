package targetkind_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

func TestConnectCommand(t *testing.T) {
	for want, key := range map[string]types.NamespacedName{
		"kubectl multicluster connect c2 --target-context CONTEXT --renew": {Name: "c2"},
		"kubectl multicluster connect c2 --namespaced -n team-a --target-context CONTEXT --renew": {
			Namespace: "team-a", Name: "c2",
		},
	} {
		if got := targetkind.ConnectCommand(key, "--renew"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

package targetkind

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// EndCommand returns the command that ends the delegates of a target that was deleted, given the ID of the source. Only
// the user knows what to put in place of CONTEXT: the target's cluster.
func EndCommand(key types.NamespacedName, clusterID string) string {
	made := labels.Set{
		v1alpha1.LabelParentClusterID: clusterID, v1alpha1.LabelTargetHash: translate.TargetHash(key),
	}
	where := "-A"
	if key.Namespace != "" {
		where = "-n " + key.Namespace
	}
	return "kubectl --context CONTEXT delete podchaperons " + where + " -l " + made.String()
}

package scheduling

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// demands remembers what pods that wait ask for: queueing hints ask for each of them at every event. Its zero value is
// ready.
type demands struct {
	byPod sync.Map // of *versioned by types.UID
}

type versioned struct {
	version string
	demand  *fit.Demand
}

// of a pod, as it is.
func (d *demands) of(pod *corev1.Pod) (*fit.Demand, error) {
	if known, ok := d.byPod.Load(pod.UID); ok && pod.ResourceVersion != "" {
		if known, ok := known.(*versioned); ok && known.version == pod.ResourceVersion {
			return known.demand, nil
		}
	}
	constraints, err := translate.DelegateConstraints(pod)
	if err != nil {
		return nil, fmt.Errorf("reading the pod's own constraints: %w", err)
	}
	demand := fit.NewDemand(pod, constraints)
	d.byPod.Store(pod.UID, &versioned{pod.ResourceVersion, demand})
	return demand, nil
}

// forget a pod that is bound or gone.
func (d *demands) forget(pod types.UID) { d.byPod.Delete(pod) }

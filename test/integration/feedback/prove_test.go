package feedback

import (
	"errors"
	"testing"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// laterKeys are keys that were made later than all pods of the test: an earlier version had none.
type laterKeys struct{ *proof.Keys }

func (laterKeys) CreatedAt() time.Time { return time.Now().Add(time.Hour) }

func TestThePodChaperonOfAnEarlierVersionGetsItsMarks(t *testing.T) {
	c2 := newTarget(env.Namespace(t, nil, source, target), "c2")
	c2.Verifier = laterKeys{keys}
	c2.Engage(t, registry)
	proxy := createProxy(t, c2, "web")
	c, err := translate.Chaperon(proxy, translate.Source{ClusterID: "source"}, translate.Destination{Target: c2.Key})
	env.Must(t, err)
	delete(c.Labels, v1alpha1.LabelTargetID)
	c.Labels["example.org/theirs"] = "stays"
	env.Create(t, target, c)
	env.Bind(t, source, proxy, c2.NodeName)
	env.WaitFor(t, target, c, func(now *v1alpha1.PodChaperon) error {
		switch {
		case now.Labels[v1alpha1.LabelTargetID] != translate.TargetID(c2.Key):
			return errors.New("it has no target-id")
		case !keys.Verify(proof.ClaimOf(proxy, c2.Key), now.Annotations[v1alpha1.AnnotationProof]):
			return errors.New("it has no proof")
		case now.Labels["example.org/theirs"] != "stays" || now.Labels[v1alpha1.LabelTargetHash] != c2.Hash:
			return errors.New("other labels have changed")
		}
		return nil
	})
}

package scheduling

import (
	"testing"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestAForgedPodChaperonHoldsNoPod(t *testing.T) {
	s := start(t, time.Minute, map[string]string{"c1": "8", "c2": "8"})
	s.answer("c1", nil)
	pod := s.pod(t, "web", "1", onNode("c1"))
	placed := s.placed(t, "c1", 1)
	forged, err := translate.Chaperon(
		pod, translate.Source{ClusterID: sourceID},
		translate.Destination{Target: s.targets["c2"].Key, Proof: placed.Annotations[v1alpha1.AnnotationProof]},
	)
	env.Must(t, err)
	env.Create(t, cluster2, forged)
	env.ChangeStatus(t, cluster2, forged, running)
	expectBound(t, s.pod(t, "later", "1", onNode("c2")), "c2") // So the scheduler has seen the forged one, too.
	env.ChangeStatus(t, cluster1, placed, running)
	expectBound(t, pod, "c1")
}

func TestAProofSurvivesACrash(t *testing.T) {
	for name, test := range map[string]struct {
		proof string
		want  string
	}{
		"with its proof, the PodChaperon is found and kept": {want: "c1"},
		"with another proof, it holds nothing":              {proof: "forged", want: "c2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, time.Minute, map[string]string{"c1": "8", "c2": "4"})
			s.answer("c1", nil)
			s.answer("c2", nil)
			pod := s.pod(t, "web", "6")
			placed := s.placed(t, "c1", 1)
			s.stop()
			s.summarize(t, "c1", "1") // Nothing but the PodChaperon speaks for c1.
			s.summarize(t, "c2", "8")
			if test.proof != "" {
				env.Change(t, cluster1, placed, func(c *v1alpha1.PodChaperon) {
					c.Annotations[v1alpha1.AnnotationProof] = test.proof
				})
			}
			env.ChangeStatus(t, cluster1, placed, running)
			s.answer("c2", running)
			s.run(t, time.Minute)
			expectBound(t, pod, test.want)
		})
	}
}

package uninstall

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSortProxies(t *testing.T) {
	const c2, down, worker = "admiralty-c2", "admiralty-down", "worker"
	controlled := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
	now := metav1.Now()
	for name, test := range map[string]struct {
		node    string
		phase   corev1.PodPhase
		owners  []metav1.OwnerReference
		deleted bool
		leave   bool
		want    string
	}{
		"a running pod is deleted":                         {node: c2, want: "remove"},
		"a finished pod is deleted":                        {node: c2, phase: corev1.PodSucceeded, want: "remove"},
		"a deleted pod is waited for":                      {node: c2, deleted: true, want: "ending"},
		"nobody can end a pod of a dead target":            {node: down, want: "left"},
		"a deleted pod of a dead target is left":           {node: down, deleted: true, want: "left"},
		"a running pod is left":                            {node: c2, leave: true, want: "left"},
		"a pending pod is replaced":                        {owners: controlled, want: "remove"},
		"a pending pod is replaced, and others are left":   {owners: controlled, leave: true, want: "remove"},
		"a pending pod that nobody would replace stays":    {want: "pending"},
		"a pending pod that is being deleted is no matter": {owners: controlled, deleted: true},
		"a pod that failed before it was bound stays":      {owners: controlled, phase: corev1.PodFailed},
		"a pod on a node that is gone goes by itself":      {node: "admiralty-gone"},
		"a pod on a node that is not virtual is not ours":  {node: worker},
	} {
		t.Run(name, func(t *testing.T) {
			pod := corev1.Pod{Spec: corev1.PodSpec{NodeName: test.node}, Status: corev1.PodStatus{Phase: test.phase}}
			pod.OwnerReferences = test.owners
			if test.deleted {
				pod.DeletionTimestamp = &now
			}
			choice := End
			if test.leave {
				choice = Leave
			}
			p := sortProxies([]corev1.Pod{pod}, map[string]bool{c2: true, down: false}, choice)
			got := map[string]int{
				"remove": len(p.remove), "ending": len(p.ending), "pending": len(p.pending), "left": len(p.left),
			}
			want := map[string]int{"remove": 0, "ending": 0, "pending": 0, "left": 0}
			if test.want != "" {
				want[test.want] = 1
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

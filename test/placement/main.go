// Command placement simulates.
package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func main() {
	quiet()
	asTest("x", func(t *testing.T) {
		inBubble(t, func(ctx context.Context) {
			var targets []*target
			var policies []*v1alpha1.PlacementPolicy
			for i := range 3 {
				var nodes []*corev1.Node
				for j := range 5 {
					r := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
					nodes = append(nodes, &corev1.Node{
						ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d-n%d", i, j), Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("c%d-n%d", i, j)}},
						Status:     corev1.NodeStatus{Capacity: r, Allocatable: r, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
					})
				}
				tg, err := newTarget(ctx, fmt.Sprintf("c%d", i), nodes, 1)
				if err != nil {
					t.Fatal(err)
				}
				targets = append(targets, tg)
				policies = append(policies, nil)
			}
			s, err := newSource(ctx, targets, policies)
			if err != nil {
				t.Fatal(err)
			}
			pause(ctx, 10*time.Second)
			start := time.Now()
			s.watch(func(c change) {
				if pod, ok := c.after.(*corev1.Pod); ok {
					fmt.Println(time.Since(start), pod.Name, pod.Spec.NodeName, pod.Status.Phase, len(pod.Status.Conditions))
				}
			})
			for i := range 100 {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Namespace: namespace, Annotations: map[string]string{v1alpha1.AnnotationElect: ""}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1200m"), "memory": resource.MustParse("1Gi")}}}}},
				}
				if _, err := s.admit(pod); err != nil {
					t.Fatal(err)
				}
			}
			pause(ctx, 2*time.Minute)
			fmt.Println("end")
		})
	})
}

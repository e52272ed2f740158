package capacity

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	benchNodes = 5_000
	benchPods  = 150_000
)

func BenchmarkPodComesAndGoes(b *testing.B) {
	a := bigAccount()
	p := pod("new", "7", "100m", "32Mi", of("s1"))
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	b.ReportAllocs()
	for b.Loop() {
		a.setPod(p)
		a.removePod(key)
	}
}

func BenchmarkSummary(b *testing.B) {
	a := bigAccount()
	b.ReportAllocs()
	for b.Loop() {
		a.summary()
	}
}

func bigAccount() *account {
	a := newAccount(nil)
	for i := range benchNodes {
		name := fmt.Sprint(i)
		a.setNode(node(name, "32", "128Gi", label("kubernetes.io/hostname", name), label("zone", fmt.Sprint(i%3)), label("os", "linux"),
			func(n *corev1.Node) {
				n.Status.Allocatable["example.com/gpu"] = n.Status.Allocatable[corev1.ResourcePods]
			}))
	}
	for i := range benchPods {
		a.setPod(pod(fmt.Sprint(i), fmt.Sprint(i%benchNodes), "500m", "1Gi", of([]string{"", "s1", "s2"}[i%3])))
	}
	return a
}

//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestDescribeShowsTheWarningsAboutADelegate(t *testing.T) {
	w := setUp(t)
	absent := inTarget("c2", podTemplate("absent"))
	absent.Spec.Containers[0].Image = "localhost/absent:never"
	create(t, w.c1, w.pod("absent", absent))
	eventuallyOutput(t, w, `Container image "localhost/absent:never" is not present`, "describe", "pod", "absent")

	unready := inTarget("c2", podTemplate("unready"))
	unready.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}},
		PeriodSeconds: 1,
	}
	create(t, w.c1, w.pod("unready", unready))
	eventuallyOutput(t, w, "Readiness probe failed", "describe", "pod", "unready")
}

package warnings

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const noVolume = `MountVolume.SetUp failed for volume "data": no such disk`

func TestAWarningAboutADelegateIsAnEventOfItsProxy(t *testing.T) {
	in, _ := lead(t, newNamespace(t))
	proxy, delegate := run(t, in, "web")
	beforeChaperon, beforeProxy := writesOf(proxy, delegate)
	record(t, delegate, corev1.EventTypeWarning, "FailedMount", noVolume)
	env.WaitForEvent(t, c1, proxy, "FailedMount", noVolume+" (virtual node "+in.NodeName+")")
	record(t, delegate, corev1.EventTypeWarning, "Unhealthy", strings.Repeat("no answer ", 200))
	env.WaitForEvent(t, c1, proxy, "Unhealthy", "no answer")
	afterChaperon, afterProxy := writesOf(proxy, delegate)
	if afterChaperon != beforeChaperon+2 || afterProxy != beforeProxy {
		t.Errorf("two warnings cost %d writes of the PodChaperon and %d of the proxy, want 2 and none",
			afterChaperon-beforeChaperon, afterProxy-beforeProxy)
	}
	for _, c := range env.Get(t, c1, proxy).Status.Conditions {
		if translate.IsWarning(c.Type) {
			t.Errorf("the proxy has the condition %v", c)
		}
	}
}

func TestAHealthyDelegateCostsNoWriteMore(t *testing.T) {
	in, _ := lead(t, newNamespace(t))
	proxy, delegate := run(t, in, "web")
	_, marker := run(t, in, "marker")
	markerProxy := &corev1.Pod{ObjectMeta: env.Meta(in.Key.Namespace, "marker")}
	beforeChaperon, beforeProxy := writesOf(proxy, delegate)
	record(t, delegate, corev1.EventTypeNormal, "Pulled", "image is present")
	record(t, delegate, corev1.EventTypeNormal, "Started", "started container")
	stranger := delegate.DeepCopy()
	stranger.UID = "before"
	record(t, stranger, corev1.EventTypeWarning, "BackOff", "of a pod that had the name before")
	record(t, marker, corev1.EventTypeWarning, "Unhealthy", "no answer")
	env.WaitForEvent(t, c1, markerProxy, "Unhealthy", "no answer")
	afterChaperon, afterProxy := writesOf(proxy, delegate)
	if afterChaperon != beforeChaperon || afterProxy != beforeProxy || len(env.Events(t, c1, proxy)) != 0 {
		t.Errorf("%d writes of the PodChaperon, %d of the proxy, events %v",
			afterChaperon-beforeChaperon, afterProxy-beforeProxy, env.Events(t, c1, proxy))
	}
	if beforeChaperon < 1 || beforeProxy < 1 {
		t.Errorf("the journal has %d writes of the PodChaperon, and %d of the proxy", beforeChaperon, beforeProxy)
	}
}

func TestARestartRepeatsNothing(t *testing.T) {
	namespace := newNamespace(t)
	in, stop := lead(t, namespace)
	proxy, delegate := run(t, in, "web")
	record(t, delegate, corev1.EventTypeWarning, "FailedMount", noVolume)
	env.WaitForEvent(t, c1, proxy, "FailedMount", noVolume)
	stop()
	lead(t, namespace)
	record(t, delegate, corev1.EventTypeWarning, "Unhealthy", "since the restart")
	env.WaitForEvent(t, c1, proxy, "Unhealthy", "since the restart")
	if events := warned(t, proxy, "FailedMount"); len(events) != 1 || events[0].Series != nil {
		t.Errorf("the restart repeated a warning: %v", events)
	}
	record(t, delegate, corev1.EventTypeWarning, "FailedMount", noVolume) // At most ten seconds later, it is shown.
	waitUntil(t, func() error {
		if events := warned(t, proxy, "FailedMount"); len(events) != 2 {
			return fmt.Errorf("a warning that was repeated after the restart is not an event: %v", events)
		}
		return nil
	})
	c := &v1alpha1.PodChaperon{ObjectMeta: env.Meta(delegate.Namespace, delegate.Name)}
	shown, _ := translate.Warnings(env.Get(t, c2, c).Status.Conditions)
	if len(shown) != 2 {
		t.Errorf("the PodChaperon shows %v", shown)
	}
}

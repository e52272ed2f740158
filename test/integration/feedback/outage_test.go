package feedback

import (
	"context"
	"errors"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestEverythingIsComparedWhenATargetIsEngaged(t *testing.T) {
	s := newStory(t)
	changed := s.create(s.pod("changed"))
	s.report(s.place(changed, s.target), corev1.PodRunning)
	chaperonless := s.create(s.pod("chaperonless"))
	s.delete(shared.target, s.place(chaperonless, s.target))
	vanished := s.create(s.pod("vanished"))
	orphan := s.place(vanished, s.target)
	s.delete(shared.source, vanished, client.GracePeriodSeconds(0))
	deleted := s.create(s.pod("deleted"))
	deletedChaperon := s.place(deleted, s.target)
	s.delete(shared.source, deleted)

	s.engage(s.target)

	s.shows(changed, corev1.PodRunning)
	s.gone(shared.source, chaperonless)
	s.ending(orphan, "")
	s.ending(deletedChaperon, "")
}

func TestNothingIsDoneWhileATargetIsNotReachable(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	other := s.newTarget("c3")
	s.engage(other)
	running := s.create(s.pod("running"))
	runningChaperon := s.place(running, s.target)
	evicted := s.create(s.pod("evicted"))
	evictedChaperon := s.place(evicted, s.target)
	forced := s.create(s.pod("forced"))
	orphan := s.place(forced, s.target)
	s.settled(s.target)

	shared.registry.SetReachable(s.target, false)
	s.report(runningChaperon, corev1.PodRunning)
	s.delete(shared.source, evicted)
	s.delete(shared.source, forced, client.GracePeriodSeconds(0))
	s.settled(other)
	s.shows(running, corev1.PodPending)
	for _, c := range []*v1alpha1.PodChaperon{evictedChaperon, orphan} {
		s.kept(c)
	}

	shared.registry.SetReachable(s.target, true)
	s.shows(running, corev1.PodRunning)
	s.ending(orphan, "")
	s.ending(evictedChaperon, "")
	s.end(evictedChaperon)
	s.gone(shared.source, evicted)
}

// hanging is the client of a target that takes requests and never answers.
type hanging struct {
	client.Client
	asked chan struct{}
}

func (h *hanging) Patch(ctx context.Context, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
	h.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestATargetThatHangsDelaysNoOther(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	other := s.newTarget("c3")
	s.engage(other)
	const more = 50 // than there are workers
	silent := &hanging{Client: s.target.Client, asked: make(chan struct{}, more)}
	s.target.Client = silent
	for i := range more {
		proxy := s.create(s.pod("web-" + strconv.Itoa(i)))
		s.place(proxy, s.target)
		s.delete(shared.source, proxy)
	}
	<-silent.asked
	s.settled(other)
}

func TestPodsOnVirtualNodesThatAreNoProxiesCanBeDeleted(t *testing.T) {
	s := newStory(t)
	for _, node := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{
			Name: s.namespace + "-virtual", Labels: map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-real"}},
	} {
		s.must(shared.source.Client.Create(t.Context(), node))
	}
	onNode := func(name string) *corev1.Pod {
		pod := s.pod(name)
		pod.Annotations, pod.Spec.SchedulerName = nil, ""
		s.create(pod)
		s.bind(pod, s.namespace+"-"+name)
		s.delete(shared.source, pod)
		return pod
	}
	running := onNode("real")
	s.gone(shared.source, onNode("virtual"))
	eventually(s, shared.source, running, func(*corev1.Pod) error { return nil })
}

func TestFinalizersOfTheOldSystemAreRemoved(t *testing.T) {
	s := newStory(t)
	pod := s.pod("old")
	pod.Finalizers = []string{"multicluster.admiralty.io/multiclusterForegroundDeletion", "example.com/somebody-elses"}
	s.create(pod)
	eventually(s, shared.source, pod, func(pod *corev1.Pod) error {
		if len(pod.Finalizers) != 1 || pod.Finalizers[0] != "example.com/somebody-elses" {
			return errors.New("the finalizers are still there")
		}
		return nil
	})
}

package chaperon

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestWhyTheDelegateIsNotCreatedIsShownOnce(t *testing.T) {
	s := newStage(t, chaperon(corev1.PodStatus{}))
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	s.reconciler.clock = clock
	fails := func(message string) {
		t.Helper()
		s.createErr = apierrors.NewInternalError(errors.New(message))
		for range 3 {
			if _, err := s.reconcile(); err == nil {
				t.Error("it is not tried again")
			}
		}
	}
	const prefix = "Internal error occurred: "
	fails("failed calling webhook")
	s.expectWarnings(prefix+"failed calling webhook", 1)
	if status := s.chaperon().Status; delegateSeen(&status) || lostCondition(&status) != nil {
		t.Errorf("the delegate is taken for created, or for lost: %v", status)
	}
	clock.SetTime(clock.Now().Add(warnUncreatedAgain - time.Second))
	fails("another message each time")
	s.expectWarnings(prefix+"failed calling webhook", 1)
	clock.SetTime(clock.Now().Add(time.Second))
	fails("another one later")
	s.expectWarnings(prefix+"another one later", 2)

	s.createErr = nil
	s.mustReconcile()
	if got := s.creates[len(s.creates)-1]; got != "create" || s.statusWrites != 2 {
		t.Errorf("%s, %d writes", got, s.statusWrites)
	}
}

func TestAConflictIsNoWarning(t *testing.T) {
	s := newStage(t, chaperon(corev1.PodStatus{}))
	s.createErr = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("quota changed"))
	if _, err := s.reconcile(); err == nil {
		t.Error("it is not tried again")
	}
	s.expectWarnings("", 0)
}

func TestAFailedCreationKeepsOtherWarnings(t *testing.T) {
	other := translate.Warning("BackOff", "of the delegate before", time.Unix(1000, 0))
	s := newStage(t, chaperon(corev1.PodStatus{Conditions: []corev1.PodCondition{other}}))
	s.createErr = errors.New("connection reset")
	if _, err := s.reconcile(); err == nil {
		t.Error("it is not tried again")
	}
	s.expectWarnings("of the delegate before, connection reset", 1)
}

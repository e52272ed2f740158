package claims

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhoAskedForAClaim(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(a *asks)
		want    time.Duration
	}{
		"nobody": {happens: func(*asks) {}},
		"another pod": {
			happens: func(a *asks) { a.note(keyOfData, "b", atC2, noon().Add(-time.Second)) },
			want:    askedFor - time.Second,
		},
		"several pods": {
			happens: func(a *asks) {
				a.note(keyOfData, "b", atC2, noon().Add(-time.Second))
				a.note(keyOfData, "c", atC2, noon().Add(-time.Minute))
			},
			want: askedFor - time.Second,
		},
		"the pod itself": {happens: func(a *asks) { a.note(keyOfData, "a", atC2, noon()) }},
		"another pod, long ago": {
			happens: func(a *asks) { a.note(keyOfData, "b", atC2, noon().Add(-askedFor-time.Second)) },
		},
		"another pod, which asked elsewhere since": {
			happens: func(a *asks) { a.note(keyOfData, "b", atC2, noon()); a.note(keyOfData, "b", atC3, noon()) },
		},
		"another pod, which the target refused": {
			happens: func(a *asks) { a.note(keyOfData, "b", atC2, noon()); a.withdraw(keyOfData, "b", atC2) },
		},
		"another pod, which another target refused before": {
			happens: func(a *asks) { a.note(keyOfData, "b", atC2, noon()); a.withdraw(keyOfData, "b", atC3) },
			want:    askedFor,
		},
		"another pod, which is not forgotten yet": {
			happens: func(a *asks) { a.note(keyOfData, "b", atC2, noon()); a.tidy(noon()) }, want: askedFor,
		},
		"another pod, for another claim": {
			happens: func(a *asks) { a.note(types.NamespacedName{Namespace: "shop", Name: "log"}, "b", atC2, noon()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			var a asks
			test.happens(&a)
			if got := a.wait(keyOfData, atC2, "a", noon()); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			a.tidy(noon().Add(time.Second))
			if len(a.byClaim) > 0 {
				t.Errorf("not forgotten: %v", a.byClaim)
			}
		})
	}
}

// TestAClaimThatAnotherPodHasAskedForIsNotReleased has two pods that share a claim in c2. The first one is to move.
func TestAClaimThatAnotherPodHasAskedForIsNotReleased(t *testing.T) {
	w := newWorld(t)
	w.store(sourceName, followedClaim(atC2))
	w.store("c2", emptyCopy())
	first, second := podWithData(), podWithData()
	first.UID, second.UID = "a", "b"
	for _, pod := range []*corev1.Pod{first, second} {
		if err := w.Ensure(t.Context(), pod, w.c2.target); err != nil {
			t.Fatal(err)
		}
	}
	const want = "another pod is about to use it there"
	if err := w.MayRelease(t.Context(), first, w.c2.target); !strings.HasSuffix(message(err), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if err := w.Release(t.Context(), first, w.c2.target); err == nil || w.find("c2") == nil || w.isAt() != atC2 {
		t.Errorf("error %v, copy %v, at %v", err, w.find("c2"), w.isAt())
	}
	w.Refused(second, w.c2.target)
	if err := w.MayRelease(t.Context(), first, w.c2.target); err != nil {
		t.Error(err)
	}
	if err := w.Release(t.Context(), first, w.c2.target); err != nil || w.find("c2") != nil {
		t.Errorf("error %v, copy %v", err, w.find("c2"))
	}
}

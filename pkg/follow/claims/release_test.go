package claims

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// TestAClaimWithoutDataDoesNotKeepAPodThatWaits has a pod that waits in c2 with the claim "data", and asks for c3.
func TestAClaimWithoutDataDoesNotKeepAPodThatWaits(t *testing.T) {
	const kept = `claim "data" is in c2`
	for name, test := range map[string]struct {
		original, made *corev1.PersistentVolumeClaim // by default a claim in c2, and an empty copy
		from           func(*world) *engage.Target
		want           string
	}{
		"the copy is empty":             {},
		"the claim lost its annotation": {original: followedClaim(location{}), want: kept},
		"the copy has a volume":         {made: copyOfData(), want: kept},
		"a volume is made for the copy": {made: emptyCopy(withNode), want: kept},
		"the copy was taken over":       {made: emptyCopy(takenOver), want: kept},
		"the pod waits nowhere": {
			from: func(*world) *engage.Target { return nil }, want: kept,
		},
		"the pod waits in another target": {
			from: func(w *world) *engage.Target { return w.c3.target }, want: kept,
		},
		"the pod waits in one that is not engaged": {
			from: func(*world) *engage.Target { return &engage.Target{} }, want: kept,
		},
		"the target is out of reach": {
			from: func(w *world) *engage.Target { w.registry.Lose(w.c2.target); return w.c2.target }, want: kept,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made, from := cmp.Or(test.made, emptyCopy()), w.c2.target
			remembered := claimOf(followedClaim(atC2), sourceName)
			w.records.note(keyOfData, &remembered)
			w.source.claims["shop"] = listing(t, cmp.Or(test.original, followedClaim(atC2)))
			w.c2.claims["shop"], w.c3.claims["shop"] = listing(t, made), listing(t)
			if test.from != nil {
				from = test.from(w)
			}
			got := w.Objection(podWithData(), w.c3.target, from)
			if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q…", got, test.want)
			}
		})
	}
}

func TestAClaimIsReleasedOnlyIfItIsSurelyEmptyAndNobodyElseUsesIt(t *testing.T) {
	own := translate.DelegateName(podWithData())
	young := emptyCopy(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.CreationTimestamp = metav1.NewTime(noon().Add(-oldEnough + time.Second))
	})
	plain := followedClaim(atC2)
	delete(plain.Annotations, v1alpha1.AnnotationFollow)
	slow := func() error { return errors.New("slow") }
	for name, test := range map[string]struct {
		original, made *corev1.PersistentVolumeClaim // by default a claim in c2, and an empty copy
		chaperon       string                        // one that uses the claim
		before         string                        // a request that is not answered
		want           string                        // of MayRelease; empty if the claim is released
		stays          bool                          // although Release is called
		untouched      bool                          // because it does not keep the pod there
	}{
		"an empty copy":                    {},
		"of which the pod has a delegate":  {chaperon: own},
		"that another pod uses":            {chaperon: "other", want: "another pod uses it there", stays: true},
		"with data":                        {made: copyOfData(), want: "it may have data there", stays: true},
		"that is young":                    {made: young, want: "it is younger than 10s there", stays: true},
		"of a claim that is elsewhere":     {original: followedClaim(atC3), untouched: true},
		"of a claim that is not followed":  {original: plain, untouched: true},
		"when the source does not answer":  {before: "source get", want: "getting it here: slow", stays: true},
		"when the target does not answer":  {before: "c2 get", want: "getting it there: slow", stays: true},
		"when nobody knows who uses it":    {before: "c2 list", want: "looking who uses it there: slow", stays: true},
		"when it is not deleted":           {before: "c2 delete", stays: true},
		"when the source does not note it": {before: "source patch", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store(sourceName, cmp.Or(test.original, followedClaim(atC2)))
			w.store("c2", cmp.Or(test.made, emptyCopy()))
			if test.chaperon != "" {
				if err := w.stored["c2"].Create(t.Context(), chaperonWith(test.chaperon, "data")); err != nil {
					t.Fatal(err)
				}
			}
			if test.before != "" {
				w.before[test.before] = slow
			}
			err := w.MayRelease(t.Context(), podWithData(), w.c2.target)
			if got := message(err); !strings.HasSuffix(got, test.want) || (err == nil) != (test.want == "") {
				t.Errorf("whether it may be released: %q, want %q", got, test.want)
			}
			if test.chaperon == own { // It is withdrawn by now.
				if err := w.stored["c2"].Delete(t.Context(), chaperonWith(own, "data")); err != nil {
					t.Fatal(err)
				}
			}
			err = w.Release(t.Context(), podWithData(), w.c2.target)
			if stays := err != nil; stays != test.stays {
				t.Errorf("Release: %v, want an error: %t", err, test.stays)
			}
			clear(w.before)
			released := !test.stays && !test.untouched
			if free := w.isAt() == (location{}); free != released {
				t.Errorf("the claim is in %v, want it free: %t", w.isAt(), released)
			}
			if kept := w.find("c2") != nil; released && kept {
				t.Error("the copy is still there")
			}
		})
	}
}

func TestAClaimThatKeepsAPodNowhereIsNotLookedFor(t *testing.T) {
	w := newWorld(t)
	w.store(sourceName, followedClaim(location{}))
	w.before["c2 get"] = func() error { return errors.New("the target lets us read no claims") }
	err := errors.Join(w.MayRelease(t.Context(), podWithData(), w.c2.target),
		w.Release(t.Context(), podWithData(), w.c2.target))
	if err != nil {
		t.Error(err)
	}
}

func TestNothingIsReleasedInATargetThatIsNotEngaged(t *testing.T) {
	w := newWorld(t)
	err := errors.Join(w.MayRelease(t.Context(), podWithData(), &engage.Target{}),
		w.Release(t.Context(), podWithData(), &engage.Target{}))
	if err != nil || len(w.changes) > 0 {
		t.Errorf("error %v, requests %v", err, w.changes)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

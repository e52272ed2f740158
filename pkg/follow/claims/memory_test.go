package claims

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// unlisted returns the claims of a namespace that is watched, and not listed yet.
func unlisted() *watched {
	return &watched{stop: func() {}, claimStore: watch.NewStore(
		watch.StoreOptions[*corev1.PersistentVolumeClaim, claim]{},
	)}
}

// TestObjections has a pod that refers to the claim "data", which says that it is in c3. It asks for c2.
func TestObjections(t *testing.T) {
	const unknown = "claims in namespace shop are not known yet"
	for name, test := range map[string]struct {
		pod             *corev1.Pod
		target          func(*world) *engage.Target
		source, c2, c3  *watched
		classesUnlisted bool
		want            string
	}{
		"a pod without claims can go": {pod: &corev1.Pod{}, source: unlisted(), c2: unlisted(), c3: unlisted()},
		"a target that has just been disengaged": {
			target: func(*world) *engage.Target { return &engage.Target{} }, want: "its claims are not known yet",
		},
		"a target of another namespace": {
			target: func(w *world) *engage.Target { w.c2.target.Key.Namespace = "bank"; return w.c2.target },
			want:   "it is not allowed namespace shop",
		},
		"the source's claims are not known": {source: unlisted(), want: unknown},
		"the target's claims are not known": {c2: unlisted(), want: unknown},
		"the claim is in another target": {
			c3: listing(t, copyOfData()), want: `claim "data" is in c3`,
		},
		"nobody knows whether it is in another target": {
			c3: unlisted(), want: `claim "data" is in c3, which cannot be asked now`,
		},
		"it is not in the other target": {},
		"nobody knows the storage classes": {
			classesUnlisted: true, want: `claim "data" needs a storage class: storage classes are not known yet`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.source.claims["shop"] = listing(t, followedClaim(atC3))
			w.c2.claims["shop"], w.c3.claims["shop"] = listing(t), listing(t)
			for c, claims := range map[*cluster]*watched{w.source: test.source, w.c2: test.c2, w.c3: test.c3} {
				if claims != nil {
					c.claims["shop"] = claims
				}
			}
			if test.classesUnlisted {
				w.c2.classes = watch.NewStore(watch.StoreOptions[*storagev1.StorageClass, class]{EntryOf: classOf})
			}
			pod, target := podWithData(), w.c2.target
			if test.pod != nil {
				pod = test.pod
			}
			if test.target != nil {
				target = test.target(w)
			}
			got := w.Objection(pod, target, nil)
			if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q…", got, test.want)
			}
		})
	}
}

// TestCopiesThatNeedAChangeAreEnqueued has a copy of the claim "data" in c2, whose original is gone, and another copy
// whose original exists.
func TestCopiesThatNeedAChangeAreEnqueued(t *testing.T) {
	fine, fineCopy := followedClaim(atC2), copyOfData()
	fine.Name, fineCopy.Name = "fine", "fine"
	key := types.NamespacedName{Namespace: "shop", Name: "data"}
	for name, test := range map[string]struct {
		change        func(w *world)
		source, there *watched
		want          []types.NamespacedName
		appeared      []string
	}{
		"a claim of the source changed": {
			change: func(w *world) { w.sourceChanged("shop", "data") },
			want:   []types.NamespacedName{key}, appeared: []string{"shop"},
		},
		"the claims of the source are listed": {
			change: func(w *world) { w.sourceChanged("shop", "") },
			want:   []types.NamespacedName{key}, appeared: []string{"shop"},
		},
		"a claim of the target changed": {
			change: func(w *world) { w.targetChanged(w.c2, "shop", "data") },
			want:   []types.NamespacedName{key}, appeared: []string{"shop"},
		},
		"a claim of the target changed whose original exists": {
			change: func(w *world) { w.targetChanged(w.c2, "shop", "fine") }, appeared: []string{"shop"},
		},
		"a claim of the target is gone": {
			change: func(w *world) { w.targetChanged(w.c2, "shop", "gone") }, appeared: []string{"shop"},
		},
		"the claims of the source are not known": {
			source: unlisted(), change: func(w *world) { w.targetChanged(w.c2, "shop", "") },
			appeared: []string{"shop"},
		},
		"the claims of the target are not known": {
			there: unlisted(), change: func(w *world) { w.sourceChanged("shop", "") }, appeared: []string{"shop"},
		},
		"storage classes of the source changed": {
			change: func(w *world) { w.sourceChanged("", "fast") }, appeared: []string{"bank", "shop"},
		},
		"storage classes of the target changed": {
			change: func(w *world) { w.targetChanged(w.c2, "", "fast") }, appeared: []string{"shop"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.targets = engage.PerTarget[*cluster]{}
			w.targets.Set(t.Context(), w.c2.target, w.c2)
			w.c2.workers = w.newWorkers(w.c2)
			appeared := map[string]bool{}
			w.options.Appeared = func(namespace string) { appeared[namespace] = true }
			w.source.claims["shop"], w.source.claims["bank"] = listing(t, fine), listing(t)
			w.c2.claims["shop"] = listing(t, copyOfData(), fineCopy)
			if test.source != nil {
				w.source.claims["shop"] = test.source
			}
			if test.there != nil {
				w.c2.claims["shop"] = test.there
			}
			test.change(w)
			var got []types.NamespacedName
			for w.c2.workers.Queue.Len() > 0 {
				next, _ := w.c2.workers.Queue.Get()
				w.c2.workers.Queue.Done(next)
				got = append(got, next)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("enqueued (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.appeared, slices.Sorted(maps.Keys(appeared))); diff != "" {
				t.Errorf("namespaces whose pods are tried again (-want +got):\n%s", diff)
			}
		})
	}
}

// TestACopyThatIsShownIsNotGivenUp has a claim with the empty annotation followed-to. Its copy may be in c3.
func TestACopyThatIsShownIsNotGivenUp(t *testing.T) {
	original := claimOf(givenUpClaim(), sourceName)
	bound := claimOf(followedClaim(location{"c9", "id-of-c9"}), sourceName)
	made := claimOf(copyOfData(), sourceName)
	other := copyOfData()
	other.Labels[v1alpha1.LabelParentUID] = "another"
	notMade := claimOf(other, sourceName)
	for name, test := range map[string]struct {
		s    situation
		c3   *watched
		want bool
	}{
		"it is there": {
			s: situation{original: &original}, c3: listing(t, copyOfData()), want: true,
		},
		"it is there, and an unknown claim here": {
			s: situation{original: &original, there: &notMade}, c3: listing(t, copyOfData()), want: true,
		},
		"the claim says where it is": {s: situation{original: &bound}, c3: listing(t, copyOfData())},
		"it is here": {
			s: situation{original: &original, there: &made}, c3: listing(t, copyOfData()),
		},
		"nothing is there":        {s: situation{original: &original}, c3: listing(t)},
		"something else is there": {s: situation{original: &original}, c3: listing(t, other)},
		"nobody knows":            {s: situation{original: &original}, c3: unlisted()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.c2.claims["shop"], w.c3.claims["shop"] = listing(t), test.c3
			w.store("c3", copyOfData())
			got, err := w.keeperOf(t.Context(), keyOfData, test.s, w.c2)
			if err != nil || (got == w.c3) != test.want || (got == nil) == test.want {
				t.Errorf("found %v, error %v, want one: %t", got, err, test.want)
			}
		})
	}
}

func TestAClaimThatIsNotFollowedIsLeftAlone(t *testing.T) {
	plain := followedClaim(location{})
	delete(plain.Annotations, v1alpha1.AnnotationFollow)
	made := copyOfData()
	made.Labels, made.Annotations = nil, nil
	for name, store := range map[string]func(*world){
		"a claim that users made in both": func(w *world) { w.store(sourceName, plain); w.store("c2", made) },
		"a claim of the target only":      func(w *world) { w.store("c2", made) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			store(w)
			w.c2.claims["shop"], w.c3.claims["shop"] = listing(t, made), listing(t, copyOfData())
			if err := w.ensure(t.Context(), keyOfData, w.c2); err != nil || len(w.changes) > 0 {
				t.Errorf("error %v, changes %v", err, w.changes)
			}
		})
	}
}

func TestTheAnnotationsAreWrittenIfTheySaySomethingElse(t *testing.T) {
	for name, test := range map[string]struct {
		at, to location
		want   bool
	}{
		"the same":                      {atC2, atC2, false},
		"an unknown cluster":            {atC2, location{name: "c2"}, false},
		"another cluster":               {atC2, location{"c2", "new"}, true},
		"another target, not known":     {atC3, location{name: "c2"}, true},
		"nothing yet":                   {location{}, atC2, true},
		"another target of the cluster": {location{"c3", atC2.clusterID}, atC2, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store(sourceName, followedClaim(test.at))
			if err := w.bindTo(t.Context(), w.find(sourceName), test.to); err != nil {
				t.Fatal(err)
			}
			if got := len(w.changes) > 0; got != test.want {
				t.Errorf("written: %t, want %t", got, test.want)
			}
			want := test.at
			if test.want {
				want = test.to
			}
			if got := w.isAt(); got != want {
				t.Errorf("the claim is at %v, want %v", got, want)
			}
		})
	}
}

func TestAReasonSaysWhoNeedsRights(t *testing.T) {
	w := newWorld(t)
	for who, c := range map[string]*cluster{
		"here: this cluster's manager": w.source, "there: the source's user": w.c2,
	} {
		if got := c.explain(forbidden(noRight), "claims"); !strings.Contains(got, "cannot be seen "+who) {
			t.Errorf("%q does not contain %q", got, who)
		}
	}
}

func TestACopyIsAsOldAsItSays(t *testing.T) {
	for name, test := range map[string]struct {
		age  time.Duration // before it was needed
		want origin
	}{
		"the clocks differ by the most that is allowed": {skew, ours},
		"the clocks differ by more":                     {skew + time.Second, others},
		"the other clock is fast":                       {-skew - time.Second, others},
	} {
		pvc := copyOfData()
		pvc.CreationTimestamp = metav1.NewTime(noon().Add(-test.age))
		if got := originOf(pvc, sourceName); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestTheSizesOfEntries(t *testing.T) {
	at := location{strings.Repeat("x", 16), strings.Repeat("x", 32)}
	c := &claim{uid: "12", class: "1234", parent: "12345678", followedTo: at, filledFrom: strings.Repeat("x", 64)}
	if got := sizeOfClaim("1", c); got != fixedSize+127 {
		t.Errorf("a claim: %d, want %d", got, fixedSize+127)
	}
	if got := sizeOfClass("fast", &class{}); got != fixedSize+4 {
		t.Errorf("a class: %d, want %d", got, fixedSize+4)
	}
}

func TestAClassThatMakesVolumesBeforeAPodUsesThem(t *testing.T) {
	for mode, want := range map[*storagev1.VolumeBindingMode]bool{
		nil:                                   true, // the default
		new(storagev1.VolumeBindingImmediate): true,
		new(storagev1.VolumeBindingWaitForFirstConsumer): false,
	} {
		if got := classOf(&storagev1.StorageClass{VolumeBindingMode: mode}).immediate; got != want {
			t.Errorf("%v: %t, want %t", mode, got, want)
		}
	}
}

func TestTheDefaultClass(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "": false} {
		sc := &storagev1.StorageClass{}
		sc.Annotations = map[string]string{annotationDefaultClass: value}
		if got := classOf(sc).isDefault; got != want {
			t.Errorf("%q: %t, want %t", value, got, want)
		}
	}
}

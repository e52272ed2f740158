package claims

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

const (
	inC2      = "is in c2"
	noneThere = "does not exist there: make it there, or have it made from one here with the annotation " +
		"multicluster.admiralty.io/follow"
	silentC2 = "is in c2, which cannot be asked now: wait for c2, or give up what is stored there by emptying " +
		"the annotation " +
		"multicluster.admiralty.io/followed-to of the claim"
)

func TestPodsGoWhereTheirDataIs(t *testing.T) {
	followed := claim{uid: "1", follow: true}
	inAnother := claim{uid: "1", follow: true, followedTo: location{"c2", "id"}}
	for name, test := range map[string]struct {
		situation
		want decision
	}{
		"a claim of the target's own is used": {
			situation{there: &claim{uid: "9"}}, decision{},
		},
		"a claim of the target's own is used, whatever the source has under that name": {
			situation{original: &claim{uid: "1"}, there: &claim{uid: "9"}}, decision{},
		},
		"a claim of the target's own is used while the source's is being deleted": {
			situation{original: &claim{uid: "1", deleting: true}, there: &claim{uid: "9"}}, decision{},
		},
		"a claim of the target's own that is being deleted is not used": {
			situation{there: &claim{uid: "9", deleting: true}}, decision{objection: "is being deleted there"},
		},
		"a claim that exists nowhere": {
			situation{}, decision{objection: noneThere},
		},
		"a claim is not made in the target unless that was asked for": {
			situation{original: &claim{uid: "1"}}, decision{objection: noneThere},
		},
		"a claim is made in the target when that was asked for": {
			situation{original: &followed}, decision{makes: true},
		},
		"a claim with contents of the source is not made in the target, empty": {
			situation{original: &claim{uid: "1", follow: true, filledFrom: `VolumeSnapshot "nightly"`}},
			decision{objection: `is to be filled from VolumeSnapshot "nightly", and a claim that is made there ` +
				"from one here is empty: make it there, from what that cluster has"},
		},
		"a claim with contents of the source is used where somebody made it": {
			situation{
				original: &claim{uid: "1", follow: true, filledFrom: `VolumeSnapshot "nightly"`},
				there:    &claim{uid: "9"},
			},
			decision{},
		},
		"a claim that is being deleted is not made in the target": {
			situation{original: &claim{uid: "1", follow: true, deleting: true}},
			decision{objection: "is being deleted"},
		},
		"a copy that was made in the target": {
			situation{original: &followed, there: &claim{uid: "9", origin: ours, parent: "1"}}, decision{},
		},
		"a copy that was made in the target is used when no others are to be made": {
			situation{original: &claim{uid: "1"}, there: &claim{uid: "9", origin: ours, parent: "1"}}, decision{},
		},
		"a copy that was made in the target is not used while the source's claim is being deleted": {
			situation{original: &claim{uid: "1", deleting: true}, there: &claim{uid: "9", origin: ours, parent: "1"}},
			decision{objection: "is being deleted"},
		},
		"a claim in another target": {
			situation{original: &inAnother, keeping: kept, keeper: "c2"}, decision{objection: inC2},
		},
		"a claim in another target counts more than one of that name in this target": {
			situation{original: &inAnother, there: &claim{uid: "9"}, keeping: kept, keeper: "c2"},
			decision{objection: inC2},
		},
		"a claim in another target counts more than the source's own where the source is a target": {
			situation{original: &inAnother, there: &inAnother, keeping: kept, keeper: "c2"}, decision{objection: inC2},
		},
		"a claim that may be in another target is waited for": {
			situation{original: &inAnother, keeping: silent, keeper: "c2"}, decision{objection: silentC2},
		},
		"a claim that is waited for when no others are to be made": {
			situation{original: &claim{uid: "1", followedTo: location{"c2", "id"}}, keeping: silent, keeper: "c2"},
			decision{objection: silentC2},
		},
		"a claim in a cluster to which its target does not lead any more": {
			situation{original: &inAnother, keeping: moved, keeper: "c2"},
			decision{objection: "is in the cluster with the ID id, to which c2 does not lead any more: have a target " +
				"lead there, or give up what is " +
				"stored there by emptying the annotation multicluster.admiralty.io/followed-to of the claim"},
		},
		"a claim that another target with the cluster's ID lacks": {
			situation{original: &inAnother, keeping: unproven, keeper: "c2"},
			decision{objection: "is in c2, which is not a target of the cluster with the ID id any more; the target " +
				"that has this ID now lacks the claim, and may be another cluster: have c2 lead there again, or give " +
				"up what is stored there by emptying the annotation multicluster.admiralty.io/followed-to of the " +
				"claim"},
		},
		"a claim that is waited for though there is a copy": {
			situation{
				original: &inAnother,
				there:    &claim{uid: "9", origin: ours, parent: "1"},
				keeping:  silent,
				keeper:   "c2",
			},
			decision{objection: "is in c2, which cannot be asked now: wait for c2, or use the copy that this " +
				"target has by emptying the annotation " +
				"multicluster.admiralty.io/followed-to of the claim"},
		},
		"a claim that never came to be in another target may be made here": {
			situation{original: &inAnother, keeping: free}, decision{makes: true},
		},
		"the source's claim where the source is the target": {
			situation{original: &claim{uid: "1"}, there: &claim{uid: "1"}}, decision{},
		},
		"the source's claim where the source is the target, and it is being deleted": {
			situation{original: &claim{uid: "1", deleting: true}, there: &claim{uid: "1", deleting: true}},
			decision{objection: "is being deleted there"},
		},
		"a copy of an earlier claim of that name": {
			situation{original: &followed, there: &claim{uid: "9", origin: ours, parent: "0"}},
			decision{objection: "there belongs to an earlier claim of that name, and is about to be deleted"},
		},
		"a copy of a claim that is gone": {
			situation{there: &claim{uid: "9", origin: ours, parent: "0"}},
			decision{objection: "there belongs to an earlier claim of that name, and is about to be deleted"},
		},
		"a copy of another cluster's claim": {
			situation{original: &followed, there: &claim{uid: "9", origin: anotherSource, parent: "1"}},
			decision{objection: "belongs to another cluster there: rename one of them"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide(test.situation), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlacesAreClustersWhereTheseAreKnown(t *testing.T) {
	for name, test := range map[string]struct {
		at, target location
		want       bool
	}{
		"the same target and cluster":                  {location{"c2", "1"}, location{"c2", "1"}, true},
		"another target":                               {location{"c2", "1"}, location{"c3", "2"}, false},
		"a target with another name":                   {location{"c2", "1"}, location{"east", "1"}, true},
		"a name that leads to another cluster":         {location{"c2", "1"}, location{"c2", "2"}, false},
		"a target whose cluster nobody noted":          {location{"c2", ""}, location{"c2", "1"}, true},
		"a target that does not say its cluster":       {location{"c2", "1"}, location{"c2", ""}, true},
		"another target that does not say its cluster": {location{"c2", "1"}, location{"c3", ""}, false},
		"two targets of unknown clusters":              {location{"c2", ""}, location{"c3", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.at.sameClusterAs(test.target); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

func TestTheClassOfACopy(t *testing.T) {
	byDefault := class{isDefault: true}
	for name, test := range map[string]struct {
		original    claim
		here, there classes
		want        *string
		objection   string
	}{
		"a class that both have": {
			original: claim{class: "fast"},
			here:     classes{"fast": {}},
			there:    classes{"fast": {}, "slow": byDefault},
			want:     ptr.To("fast"),
		},
		"a class that the source does not know": {
			original: claim{class: "fast"}, there: classes{"fast": {}}, want: ptr.To("fast"),
		},
		"a class that the target does not have": {
			original: claim{class: "fast"}, here: classes{"fast": {}}, there: classes{"slow": byDefault},
			objection: `is of storage class "fast", which does not exist there`,
		},
		"the source's default becomes the target's": {
			original: claim{class: "gp3"}, here: classes{"gp3": byDefault}, there: classes{"standard": byDefault},
		},
		"the source's default becomes the target's, even if it exists": {
			original: claim{class: "gp3"},
			here:     classes{"gp3": byDefault},
			there:    classes{"gp3": {}, "standard": byDefault},
		},
		"the source's default where the target has none": {
			original: claim{class: "gp3"},
			here:     classes{"gp3": byDefault},
			there:    classes{"gp3": {}},
			want:     ptr.To("gp3"),
		},
		"no class becomes the target's default": {
			original: claim{noClass: true}, there: classes{"standard": byDefault},
		},
		"no class where the target has no default": {
			original: claim{noClass: true}, there: classes{"standard": {}},
			objection: "names no storage class, and there is no default one there",
		},
		"volumes made by hand are of no class": {
			original: claim{class: ""},
			here:     classes{"gp3": byDefault},
			there:    classes{"standard": byDefault},
			want:     ptr.To(""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, objection := chooseClass(test.original, test.here, test.there)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if objection != test.objection {
				t.Errorf("objection %q, want %q", objection, test.objection)
			}
		})
	}
}

func TestOnlyTheEndOfTheVeryClaimEndsItsCopy(t *testing.T) {
	copied := claim{uid: "9", origin: ours, parent: "1", request: 10, bound: true}
	for name, test := range map[string]struct {
		original *claim
		there    claim
		want     step
	}{
		"the claim is gone": {
			there: copied, want: stepRemove,
		},
		"the claim is gone, and another of that name exists": {
			original: &claim{uid: "2", request: 10}, there: copied, want: stepRemove,
		},
		"the claim exists": {
			original: &claim{uid: "1", request: 10}, there: copied,
		},
		"the claim exists and is not to be followed any more": {
			original: &claim{uid: "1", request: 10, follow: false}, there: copied,
		},
		"the claim has gone to another target": {
			original: &claim{uid: "1", request: 10, followedTo: location{name: "c3"}}, there: copied,
		},
		"the claim is being deleted": {
			original: &claim{uid: "1", request: 20, deleting: true}, there: copied,
		},
		"the copy is being deleted already": {
			there: claim{uid: "9", origin: ours, parent: "1", deleting: true},
		},
		"a claim of the target's own": {
			there: claim{uid: "9"},
		},
		"a claim of the target's own that is smaller than the source's": {
			original: &claim{uid: "1", request: 20}, there: claim{uid: "9", request: 10},
		},
		"a claim of the target's own, with our labels": {
			there: claim{uid: "9", parent: "1"},
		},
		"another cluster's copy": {
			there: claim{uid: "9", origin: anotherSource, parent: "1"},
		},
		"the source's own claim, where the source is the target": {
			original: &claim{uid: "1", request: 10}, there: claim{uid: "1", request: 10},
		},
		"the claim has become larger": {
			original: &claim{uid: "1", request: 20}, there: copied, want: stepExpand,
		},
		"the claim has become larger, and the copy has no volume yet": {
			original: &claim{uid: "1", request: 20}, there: claim{uid: "9", origin: ours, parent: "1", request: 10},
		},
		"the copy has become larger": {
			original: &claim{uid: "1", request: 5}, there: copied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nextStep(test.original, test.there); got != test.want {
				t.Errorf("action %d, want %d", got, test.want)
			}
		})
	}
}

package claims

import "fmt"

// keeping says whether another target than the one in question keeps the copy of a claim.
type keeping int

const (
	free     keeping = iota // no other target does
	kept                    // the other target has the copy
	silent                  // the other target may have the copy, and cannot be asked now
	moved                   // as silent, and the target of that name leads to another cluster
	unproven                // another target says that it is the same cluster, and that the copy is gone
)

// situation is everything that decides whether one claim of a pod lets the pod go to one target.
type situation struct {
	original *claim // in the source; nil if it does not exist
	there    *claim // in the target; nil if it does not exist
	keeping  keeping
	keeper   string // the name of the other target
}

// decision says whether the pod can go to the target.
type decision struct {
	// objection is the reason why the pod cannot go there, as it reads after the claim's name. It is empty if the pod
	// can.
	objection string
	// makes says that the claim must be made there first.
	makes bool
}

// decide decides whether the pod can go there. An existing copy decides before anything else.
func decide(s situation) decision {
	switch {
	case s.keeping == kept:
		return decision{objection: "is in " + s.keeper}
	case s.keeping != free:
		return decision{objection: objectionToLeave(s)}
	case s.there != nil:
		return decision{objection: objectionToUse(s.original, s.there)}
	case s.original == nil || !s.original.follow:
		return decision{
			objection: "does not exist there: make it there, or have it made from one here with the annotation " +
				"multicluster.admiralty.io/follow",
		}
	case s.original.deleting:
		return decision{objection: "is being deleted"}
	case s.original.filledFrom != "":
		return decision{objection: "is to be filled from " + s.original.filledFrom + ", and a claim that is made " +
			"there from one here is empty: make it there, from what that cluster has"}
	default:
		return decision{makes: true}
	}
}

// objectionToLeave says why the pod waits for the other target, and how a user ends that.
func objectionToLeave(s situation) string {
	where := fmt.Sprintf("is in %[1]s, which cannot be asked now: wait for %[1]s", s.keeper)
	switch s.keeping {
	case unproven:
		where = fmt.Sprintf("is in %[1]s, which is not a target of the cluster with the ID %[2]s any more; the target "+
			"that has this ID now lacks the claim, and may be another cluster: have %[1]s lead there again",
			s.keeper, s.original.followedTo.clusterID)
	case moved:
		where = fmt.Sprintf(
			"is in the cluster with the ID %s, to which %s does not lead any more: have a target lead there",
			s.original.followedTo.clusterID,
			s.keeper,
		)
	}
	instead := "give up what is stored there"
	if s.there != nil && s.there.isMadeFor(s.original) {
		instead = "use the copy that this target has"
	}
	return where + ", or " + instead + " by emptying the annotation multicluster.admiralty.io/followed-to of " +
		"the claim"
}

// objectionToUse says why a claim that exists there cannot be used.
func objectionToUse(original, there *claim) string {
	mine := original != nil && there.isOf(original)
	switch {
	case there.deleting:
		return "is being deleted there"
	case mine && original.deleting:
		return "is being deleted"
	case mine || there.origin == others:
		return ""
	case there.origin == anotherSource:
		return "belongs to another cluster there: rename one of them"
	default:
		return "there belongs to an earlier claim of that name, and is about to be deleted"
	}
}

// classes are the StorageClasses of a cluster.
type classes map[string]class

func (c classes) hasDefault() bool {
	for _, class := range c {
		if class.isDefault {
			return true
		}
	}
	return false
}

// chooseClass returns the name of a copy's storage class, nil for the target's default, or the reason why there is
// none. A claim in the source's default class counts as one that names no class, because the API server writes that
// name into it.
func chooseClass(original claim, here, there classes) (name *string, objection string) {
	byDefault := original.noClass || here[original.class].isDefault
	_, exists := there[original.class]
	switch {
	case byDefault && there.hasDefault():
		return nil, ""
	case original.noClass:
		return nil, "names no storage class, and there is no default one there"
	case exists || original.class == "": // The empty class is for volumes that people make by hand.
		return &original.class, ""
	default:
		return nil, fmt.Sprintf("is of storage class %q, which does not exist there", original.class)
	}
}

// step is the next change of a copy.
type step int

const (
	stepNone step = iota
	stepRemove
	stepExpand
)

// nextStep decides about a claim in a target. The original is nil if the source has no claim of that name.
func nextStep(original *claim, there claim) step {
	switch {
	case there.origin != ours || there.deleting:
		return stepNone
	case original == nil || !there.isMadeFor(original):
		return stepRemove
	case !original.deleting && there.bound && original.request > there.request:
		return stepExpand
	default:
		return stepNone
	}
}

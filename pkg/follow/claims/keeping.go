package claims

// ask says whether a target that can be asked keeps the copy of a claim.
type ask func(keeper *cluster) keeping

// keeping says whether another target than t keeps the copy of a claim of a namespace, and which target that is. It
// asks only targets that are allowed the namespace.
//
// A target tells its cluster ID itself. So a target with the ID of the copy's cluster but another name counts as that
// cluster only if it has the copy. Only the target of the name can say that the copy is gone. If there is none any
// more, a user decides. A target of the name that is not connected is waited for.
func (c *Claims) keeping(namespace string, s situation, t *cluster, ask ask) (answer keeping, keeper string) {
	if s.original == nil || s.original.followedTo.name == "" || s.hasCopyIn(t.location) {
		return free, ""
	}
	at := s.original.followedTo
	var said tally
	for _, other := range c.targets.All() {
		if !other.target.Allows(namespace) {
			continue
		}
		isNamed := other.name == at.name
		if !at.sameClusterAs(other.location) {
			said.renamed = said.renamed || isNamed
			continue
		}
		got := silent
		if other.target.Reachable() {
			got = ask(other)
		}
		if got == kept {
			return kept, other.name
		}
		said.add(isNamed, got)
	}
	if !said.named && !said.renamed && c.options.Exists(t.life, at.name) {
		return silent, at.name
	}
	if said.conclusion() == free {
		return free, ""
	}
	return said.conclusion(), at.name
}

// tally counts the answers of targets that have the ID of the copy's cluster, and do not keep the copy.
type tally struct {
	named     bool // one of them has the name of the copy's target
	namedFree bool // that one says that the copy is gone
	otherFree bool // any of them says so
	renamed   bool // a target of another cluster has the name
}

func (a *tally) add(isNamed bool, got keeping) {
	a.named = a.named || isNamed
	a.namedFree = a.namedFree || isNamed && got == free
	a.otherFree = a.otherFree || got == free
}

func (a *tally) conclusion() keeping {
	switch {
	case a.namedFree:
		return free
	case a.otherFree && !a.named:
		return unproven
	case a.renamed && !a.named:
		return moved
	default:
		return silent
	}
}

// hasCopyIn says whether the claim is in a target: the claim's annotations name the target, or the target leads to the
// same cluster and has the copy.
func (s situation) hasCopyIn(target location) bool {
	at := s.original.followedTo
	return at.sameClusterAs(target) && (at.name == target.name || s.there != nil && s.there.isMadeFor(s.original))
}

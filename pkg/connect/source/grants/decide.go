package grants

// rights are the rights of a source in a namespace.
type rights int

const (
	none rights = iota
	// leaving are all rights except to create objects.
	leaving
	// kept are all rights, in a namespace that is left out by default, and that the source used before an upgrade.
	kept
	full
)

// use says whether a source has objects in a namespace.
type use int

const (
	unknown use = iota
	unused
	used
)

// situation is a source in a namespace.
type situation struct {
	choice      choice
	terminating bool   // the namespace is being deleted
	has         rights // by the RoleBindings that exist
	// everywhere says that the ClusterRoleBinding of an earlier version still exists.
	everywhere bool
	// enforce says that namespaces that are left out by default are refused, even if the source uses them.
	enforce bool
}

// decision is the rights that a source gets in a namespace.
type decision struct {
	rights rights
	// undecided says that the answer depends on a use that is not known yet. The rights stay as they are.
	undecided bool
}

// decide returns the rights of a source in a namespace. It asks for the use only if the answer matters.
func decide(s situation, asked func() use) decision {
	switch {
	case s.terminating: // It takes no new RoleBinding, and its RoleBindings go with it.
		return decision{rights: s.has}
	case s.choice == selected:
		return decision{rights: full}
	case s.choice == excluded && !s.enforce && s.has == kept:
		return decision{rights: kept}
	case s.has == none && !s.everywhere:
		return decision{rights: none}
	}
	inUse := leaving
	if s.choice == excluded && !s.enforce && s.everywhere {
		inUse = kept
	}
	switch asked() {
	case used:
		return decision{rights: inUse}
	case unused:
		if s.has > leaving {
			// It may create until the API server knows better. What it creates until then counts in the next round.
			return decision{rights: leaving}
		}
		return decision{rights: none}
	default:
		// A source that may create in the namespace still must not. Without RoleBinding, there is nothing to withdraw.
		return decision{rights: min(s.has, leaving), undecided: true}
	}
}

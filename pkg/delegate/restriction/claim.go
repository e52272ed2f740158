package restriction

import (
	"context"
	"slices"
)

// Claim says whether a user may have PodChaperons with a cluster ID in a namespace. The admission policy says the same
// of PodChaperons that the user writes.
type Claim int

const (
	// NoClaim means that no source of the user has this ID.
	NoClaim Claim = iota
	// ClaimWhereGranted means that the user may use any ID in the namespaces where it has rights: a ClusterSource of
	// the user names none.
	ClaimWhereGranted
	// FullClaim means that a Source of the namespace lets the user use the ID there, or that a ClusterSource names the
	// ID. Administrators write ClusterSources, so the latter holds in all namespaces: delegates in a namespace that was
	// taken away from the source are the source's still.
	FullClaim
)

// ClaimOf returns the claim of a user to a cluster ID in a namespace. Sources of other namespaces, which their tenants
// write, neither give nor take a claim there, whatever user they name.
func (r *Restriction) ClaimOf(ctx context.Context, user, clusterID, namespace string) (Claim, error) {
	candidates, err := r.sourcesIn(ctx, namespace)
	if err != nil {
		return NoClaim, err
	}
	claim := NoClaim
	for _, s := range candidates {
		switch {
		case user == "" || clusterID == "" || !slices.Contains(s.users, user):
		case s.clusterID == clusterID, s.clusterID == "" && !s.everywhere:
			return FullClaim, nil
		case s.clusterID == "":
			claim = ClaimWhereGranted
		}
	}
	return claim, nil
}

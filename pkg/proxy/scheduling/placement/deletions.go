package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxDeletions is how many deletions are remembered while somebody waits for the end of one PodChaperon. It may be
// deleted before its UID is known, and others of its name after it.
const maxDeletions = 8

// deletions are the UIDs of the PodChaperons of one name that were deleted last. A target may show any number of them,
// and so displace the one that is waited for. Then the wait goes on until the API server is asked.
type deletions struct {
	uids []types.UID
}

// add notes a deletion.
func (d *deletions) add(uid types.UID) {
	if d.has(uid) {
		return
	}
	if len(d.uids) == maxDeletions {
		d.uids = slices.Delete(d.uids, 0, 1)
	}
	d.uids = append(d.uids, uid)
}

// has says whether a PodChaperon is among the last ones that were deleted.
func (d *deletions) has(uid types.UID) bool { return slices.Contains(d.uids, uid) }

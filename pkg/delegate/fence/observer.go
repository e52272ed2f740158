package fence

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// Observer remembers when the Leases of sources were seen to change. The zero value has seen nothing. It is safe for
// concurrent use.
type Observer struct {
	mu sync.RWMutex // guards the fields below
	// own is the stamp of this cluster's Lease, and proved when it was last seen to change.
	own    string
	proved time.Time
	// seeing is when the renewals of this cluster's Lease began to be seen without a gap.
	seeing  time.Time
	sources map[string]sight // by the names of their Leases
}

// sight is what was seen of a Lease.
type sight struct {
	clusterID string
	stamp     string
	changed   time.Time
}

// SeeOwn records this cluster's Lease as the watch shows it.
func (o *Observer) SeeOwn(lease *coordinationv1.Lease, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stamp := stampOf(lease)
	if stamp == o.own {
		return
	}
	if o.own == "" || now.Sub(o.proved) > timeouts.FenceBlind {
		o.seeing = now
	}
	o.own, o.proved = stamp, now
}

// See records the Lease of a source as the watch shows it. A Lease that nobody has held says nothing: somebody may have
// deleted the one before.
func (o *Observer) See(lease *coordinationv1.Lease, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sources == nil {
		o.sources = map[string]sight{}
	}
	is := sight{clusterID: lease.Annotations[v1alpha1.LabelParentClusterID], stamp: stampOf(lease), changed: now}
	if was := o.sources[lease.Name]; is.clusterID != "" && (was.clusterID != is.clusterID || was.stamp != is.stamp) {
		o.sources[lease.Name] = is
	}
}

// Forget forgets the Lease of a source that has no rights any more.
func (o *Observer) Forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sources, name)
}

// silence is for how long the holder of a Lease has surely been silent, and the cluster ID that it claims.
type silence struct {
	lease     string
	clusterID string
	silent    time.Duration
}

// silences returns the silence of all Leases that claim a cluster ID. It is zero while nobody could have been heard of.
func (o *Observer) silences() []silence {
	o.mu.RLock()
	defer o.mu.RUnlock()
	sees := o.proved.Sub(o.seeing) >= timeouts.FenceLeast
	all := make([]silence, 0, len(o.sources))
	for name, s := range o.sources {
		is := silence{lease: name, clusterID: s.clusterID}
		if sees {
			is.silent = max(o.proved.Sub(s.changed), 0)
		}
		all = append(all, is)
	}
	return all
}

// Silent returns for how long the source with a cluster ID has surely been silent, and false if it has no Lease here.
// It is zero while nobody could have been heard of. Of the Leases that claim the cluster ID, those count that may.
func (o *Observer) Silent(clusterID string, may func(lease string) bool) (least time.Duration, known bool) {
	for _, s := range o.silences() {
		if s.clusterID == clusterID && may(s.lease) && (!known || s.silent < least) {
			least, known = s.silent, true
		}
	}
	return least, known
}

// stampOf returns what differs between two renewals. The time is that of the holder, and means nothing else here.
func stampOf(lease *coordinationv1.Lease) string {
	stamp := string(lease.UID) + "/" + ptr.Deref(lease.Spec.HolderIdentity, "") + "/" +
		lease.Annotations[v1alpha1.AnnotationEpoch]
	if lease.Spec.RenewTime != nil {
		stamp += "/" + lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	return stamp
}

package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// errUnchecked means that the leader has not connected a Target. Only the leader knows the source's own addresses.
var errUnchecked = errors.New("the leader has not checked the address")

// standby watches the Leases of targets while this replica does not lead, so that it knows for how long they were not
// renewed when it begins to lead. It writes nothing, and reads nothing else.
type standby struct {
	connections *connections
	elected     <-chan struct{}

	watching sync.WaitGroup
}

// NeedLeaderElection returns false.
func (*standby) NeedLeaderElection() bool { return false }

// Start watches until this replica leads, or ctx ends.
func (s *standby) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.watching.Wait()
	stops := map[types.NamespacedName]context.CancelFunc{}
	ticker := s.connections.options.Clock.NewTicker(timeouts.Health)
	defer ticker.Stop()
	for {
		if err := s.follow(ctx, stops); err != nil {
			log.FromContext(ctx).Error(err, "Targets are not watched by this replica")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.elected:
			cancel()
			return nil
		case <-ticker.C():
		}
	}
}

// follow starts and stops watches, so that there is one for each target.
func (s *standby) follow(ctx context.Context, stops map[types.NamespacedName]context.CancelFunc) error {
	targets, err := targetkind.List(ctx, s.connections.options.Client, "", client.UnsafeDisableDeepCopy)
	if err != nil {
		return err
	}
	var keys []types.NamespacedName
	for _, target := range targets {
		key := client.ObjectKeyFromObject(target)
		keys = append(keys, key)
		if stops[key] == nil {
			watched, stop := context.WithCancel(ctx)
			stops[key] = stop
			s.watching.Go(func() {
				s.watch(watched, key)
				if ctx.Err() == nil { // The target was deleted.
					s.connections.options.Holds.Forget(key)
				}
			})
		}
	}
	for key := range maps.Keys(stops) {
		if !slices.Contains(keys, key) {
			stops[key]()
			delete(stops, key)
		}
	}
	return nil
}

// watch watches the Lease of a target, again and again. It tells nobody about failures: the leader does.
func (s *standby) watch(ctx context.Context, key types.NamespacedName) {
	watch.Again(ctx, s.connections.options.Clock, time.Second, 30*time.Second, func(ctx context.Context) {
		_ = s.watchOnce(ctx, key)
	})
}

// watchOnce connects to a target, and notes each change of its Lease until the connection or the watch ends.
func (s *standby) watchOnce(ctx context.Context, key types.NamespacedName) error {
	w, err := s.want(ctx, key)
	if err != nil || w.failure != nil || w.self {
		return err
	}
	d, err := newLoop(s.connections, key, w, nil).dial(ctx, w, s.connections.options.Tokens.Borrow, nil)
	if err != nil {
		return err
	}
	defer d.close()
	found, err := d.leases(ctx)
	if err != nil || found.own.Name == "" {
		return err
	}
	lease := &coordinationv1.Lease{}
	if err := found.client.Get(ctx, found.own, lease); err != nil {
		return fmt.Errorf("getting the Lease: %w", err)
	}
	s.connections.options.Holds.Watch(key, lease)
	options := client.Options{HTTPClient: d.clients, Scheme: d.scheme, Mapper: d.mapper}
	live, err := client.NewWithWatch(d.config, options)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	// A watch from this version on is never of an earlier state, although API servers may lag.
	events, err := live.Watch(ctx, &coordinationv1.LeaseList{}, &client.ListOptions{
		Namespace: found.own.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", found.own.Name),
		Raw: &metav1.ListOptions{ResourceVersion: lease.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("watching the Lease: %w", err)
	}
	defer events.Stop()
	return s.note(ctx, key, events)
}

func (s *standby) note(ctx context.Context, key types.NamespacedName, events apiwatch.Interface) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-events.ResultChan():
			lease, is := event.Object.(*coordinationv1.Lease)
			if !ok || !is {
				return nil
			}
			s.connections.options.Holds.Watch(key, lease)
		}
	}
}

// want returns the connection for a target as it is now. The Secret is read, and not watched.
func (s *standby) want(ctx context.Context, key types.NamespacedName) (want, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	target := targetkind.New(key)
	if err := s.connections.options.Client.Get(ctx, key, target); err != nil {
		return want{}, fmt.Errorf("getting the target: %w", err)
	}
	options := &s.connections.options
	limits := options.limitsOf(key)
	if limits != nil && limits.Enforce &&
		!meta.IsStatusConditionTrue(targetkind.Status(target).Conditions, v1alpha1.ConditionConnected) {
		return want{}, errUnchecked
	}
	spec, state := targetkind.Spec(target), secretState{known: true}
	if reference := spec.KubeconfigSecret; reference != nil {
		secret := &corev1.Secret{}
		name := types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
		err := s.connections.options.APIReader.Get(ctx, name, secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return want{}, fmt.Errorf("getting the Secret: %w", err)
		}
		state.exists, state.data = err == nil, secret.Data
	}
	return decideConnection(spec, state, options.Config, limits), nil
}

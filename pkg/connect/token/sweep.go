package token

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// sweep removes entries of targets, Secrets and kubeconfigs that are gone, until ctx ends.
func (r *Renewer) sweep(ctx context.Context) {
	opened, listed := false, false
	for {
		if !opened && r.store.known() {
			close(r.ready)
			opened = true
		}
		var again <-chan time.Time
		if opened {
			if !listed {
				err := r.outdateStrangers(ctx)
				listed = err == nil
				again = r.after(err, "Cannot list targets, to delete the tokens of others")
			}
			if err := r.removeOutdated(ctx); err != nil {
				again = r.after(err, "Cannot delete tokens that are no longer used")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-r.dirty:
		case <-again:
		}
	}
}

// after logs an error, and returns when to try again. It returns nil if there is no error.
func (r *Renewer) after(err error, problem string) <-chan time.Time {
	if err == nil {
		return nil
	}
	r.options.Logger.Error(err, problem, "secret", r.options.Secret)
	return r.options.Clock.After(retry)
}

// outdateStrangers marks the entries of targets that were deleted while no manager ran.
func (r *Renewer) outdateStrangers(ctx context.Context) error {
	data, err := r.store.data()
	if err != nil || len(data) == 0 {
		return nil // There is nothing to delete.
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	clusterTargets, targets := &v1alpha1.ClusterTargetList{}, &v1alpha1.TargetList{}
	if err := r.options.APIReader.List(ctx, clusterTargets); err != nil {
		return fmt.Errorf("listing ClusterTargets: %w", err)
	}
	if err := r.options.APIReader.List(ctx, targets); err != nil {
		return fmt.Errorf("listing Targets: %w", err)
	}
	exist := map[string]bool{}
	for i := range clusterTargets.Items {
		exist[translate.TargetID(types.NamespacedName{Name: clusterTargets.Items[i].Name})] = true
	}
	for i := range targets.Items {
		t := &targets.Items[i]
		exist[translate.TargetID(types.NamespacedName{Namespace: t.Namespace, Name: t.Name})] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range data {
		if _, known := r.current[id]; !known && !exist[id] {
			r.current[id] = ""
		}
	}
	return nil
}

// removeOutdated deletes the entries that do not belong to the targets' kubeconfigs.
func (r *Renewer) removeOutdated(ctx context.Context) error {
	data, err := r.store.data()
	if err != nil {
		return nil //nolint:nilerr // There is nothing to delete. The logins report the problem.
	}
	ids := r.outdated(data)
	if len(ids) == 0 {
		return nil
	}
	if err := r.store.remove(ctx, ids); err != nil {
		return err
	}
	r.options.Logger.Info("Deleted renewed tokens that are no longer used", "targets", len(ids))
	return nil
}

func (r *Renewer) outdated(data map[string][]byte) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, fingerprint := range r.current {
		raw, stored := data[id]
		var e entry
		if stored && (json.Unmarshal(raw, &e) != nil || e.Fingerprint != fingerprint) {
			ids = append(ids, id)
		}
	}
	return ids
}

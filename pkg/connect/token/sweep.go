package token

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// maxFormer is how many tokens of former kubeconfigs are kept for a target: a tenant may change the Secret of a Target
// at any time.
const maxFormer = 2

// sweep removes entries of targets that are gone, and those of former kubeconfigs when they expire, until ctx ends.
func (r *Renewer) sweep(ctx context.Context) {
	opened, listed := false, false
	for {
		if !opened && r.store.known() {
			close(r.ready)
			opened = true
		}
		var again <-chan time.Time
		if opened && !listed {
			err := r.outdateStrangers(ctx)
			listed = err == nil
			again = r.after(err, "Cannot list targets, to delete the tokens of others")
		}
		if opened {
			again = cmp.Or(again, r.removeOutdated(ctx)) // After retry, both are done again.
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
	targets, err := targetkind.List(ctx, r.options.APIReader, "")
	if err != nil {
		return err
	}
	exist := map[string]bool{}
	for _, target := range targets {
		exist[translate.TargetID(client.ObjectKeyFromObject(target))] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range data {
		id := targetOf(key)
		if _, known := r.current[id]; !known && !exist[id] {
			r.current[id] = ""
		}
	}
	return nil
}

// removeOutdated deletes the entries that nobody can need, and returns when to do so again. It returns nil if only a
// change can be a reason.
func (r *Renewer) removeOutdated(ctx context.Context) <-chan time.Time {
	data, err := r.store.data()
	if err != nil {
		return nil // There is nothing to delete. The logins report the problem.
	}
	keys, next := r.outdated(data)
	if len(keys) > 0 {
		if err := r.store.remove(ctx, keys); err != nil {
			return r.after(err, "Cannot delete tokens that are no longer used")
		}
		r.options.Logger.Info("Deleted renewed tokens that are no longer used", "tokens", len(keys))
	}
	if next.IsZero() {
		return nil
	}
	return r.options.Clock.After(next.Sub(r.options.Clock.Now()))
}

// former is the entry of a kubeconfig that a target had before.
type former struct {
	key     string
	expires time.Time
}

// outdated returns the keys of the entries of targets that are gone, and of former kubeconfigs whose tokens have
// expired or are too many. It also returns when the next former token expires, or zero.
func (r *Renewer) outdated(data map[string][]byte) (keys []string, next time.Time) {
	now := r.options.Clock.Now()
	formers := map[string][]former{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, raw := range data {
		id := targetOf(key)
		current, known := r.current[id]
		var e entry
		valid := json.Unmarshal(raw, &e) == nil && key == keyOf(id, e.Fingerprint)
		f := former{key, e.goes()}
		switch {
		case !known, valid && e.Fingerprint == current:
		case valid && current != "" && f.expires.After(now):
			formers[id] = append(formers[id], f)
		default:
			keys = append(keys, key)
		}
	}
	for _, list := range formers {
		slices.SortFunc(list, func(a, b former) int { return b.expires.Compare(a.expires) })
		for i, f := range list {
			if i >= maxFormer {
				keys = append(keys, f.key)
			} else if next.IsZero() || f.expires.Before(next) {
				next = f.expires
			}
		}
	}
	return keys, next
}

// goes returns when the entry of a former kubeconfig is to go: when its token expires, and after a day at most.
func (e entry) goes() time.Time {
	c, err := renewedAt(e.Token, e.Renewed)
	if err != nil {
		return time.Time{}
	}
	if last := e.Renewed.Add(longest); last.Before(c.expires) {
		return last
	}
	return c.expires
}

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// wideChange is a change of the wide Service, with the writes of copies that it causes in each target.
type wideChange struct {
	what   string
	writes int
	do     func(ctx context.Context, c client.Client) error
}

func wideChanges() []wideChange {
	return []wideChange{
		{"one of 1,000 endpoints is no longer ready", 1, func(ctx context.Context, c client.Client) error {
			return changeSlice(ctx, c, 0, func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].Conditions.Ready = ptr.To(false)
			})
		}},
		{"the port of a Service with 1,000 endpoints changes", wideSlices + 1, changePort},
	}
}

func changePort(ctx context.Context, c client.Client) error {
	service := &corev1.Service{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: wide}, service); err != nil {
		return err
	}
	service.Spec.Ports[0].Port = 8000
	if err := c.Update(ctx, service); err != nil {
		return err
	}
	for i := range wideSlices {
		err := changeSlice(ctx, c, i, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr.To[int32](8001) })
		if err != nil {
			return err
		}
	}
	return nil
}

func changeSlice(ctx context.Context, c client.Client, i int, change func(*discoveryv1.EndpointSlice)) error {
	slice := newSlice(wide, i, nil)
	if err := c.Get(ctx, client.ObjectKeyFromObject(slice), slice); err != nil {
		return err
	}
	change(slice)
	return c.Update(ctx, slice)
}

// changeWide changes the wide Service, and measures what the changes cost.
func (r *run) changeWide(ctx context.Context, pid int) error {
	state, err := r.targets.state(ctx)
	if err != nil {
		return err
	}
	r.measured.Following = &report.Following{
		ConfigMaps: r.following.configMaps, Secrets: r.following.secrets, Services: r.following.services,
		Copies: state.Objects,
	}
	for _, change := range wideChanges() {
		before, err := cpuOf(pid, nil)
		if err != nil {
			return err
		}
		if err := change.do(ctx, r.source.client); err != nil {
			return fmt.Errorf("changing the Service %s: %w", wide, err)
		}
		cost, err := r.untilQuiet(ctx, state, change.writes*r.options.targets)
		if err != nil {
			return fmt.Errorf("waiting until %q has reached the targets: %w", change.what, err)
		}
		after, err := cpuOf(pid, nil)
		if err != nil {
			return err
		}
		cost.What, cost.CPU = change.what, after-before
		r.measured.Changes = append(r.measured.Changes, cost)
		if state, err = r.targets.state(ctx); err != nil {
			return err
		}
	}
	return nil
}

// untilQuiet waits until there were that many writes, and nothing more about Services in the quiet after them. It
// returns the traffic about Services since before.
func (r *run) untilQuiet(ctx context.Context, before state, writes int) (report.Traffic, error) {
	var last report.Traffic
	since := time.Now()
	err := wait.PollUntilContextCancel(ctx, glance, false, func(ctx context.Context) (bool, error) {
		now, err := r.targets.state(ctx)
		if err != nil {
			return false, err
		}
		traffic := now.about("services").plus(now.about("endpointslices")).
			minus(before.about("services").plus(before.about("endpointslices")))
		if traffic.Requests != last.Requests {
			since = time.Now()
		}
		last = report.Traffic{Requests: traffic.Requests, Sent: traffic.Sent, Received: traffic.Received}
		return traffic.Requests >= writes && time.Since(since) >= quiet, nil
	})
	return last, err
}

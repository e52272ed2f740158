package manager

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/chaperons"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/admission"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/idle"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/server"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/usage"
)

// Scheduling recognises such a cache by its methods.
var _ scheduling.ByNamespace = &chaperons.Cache{}

// sourceParts returns the parts of a source, in the order in which they are added.
func (w *wiring) sourceParts(ctx context.Context) []part {
	registry := engage.NewRegistry()
	return []part{
		{"admission", w.admission},
		{"proofs", w.keepProofs},
		{"addresses", w.addresses},
		{"following", func() error { return w.following(ctx, registry) }},
		{"scheduling", func() error { return w.scheduling(registry) }},
		{"feedback", func() error { return w.feedback(registry) }},
		{"virtual nodes", func() error { return w.nodes(registry) }},
		{"idle pods", w.idlePods},
		{"kubelet API", func() error { return w.kubeletAPI(registry) }},
		{"tokens", w.renewTokens},
		{"targets", func() error { return w.targets(registry) }}, // after the registry's observers
	}
}

func (w *wiring) admission() error {
	admission.Register(w.mgr.GetWebhookServer(), w.mgr.GetAPIReader())
	return nil
}

// addresses adds the addresses that this cluster uses, unless they were added. In a source, feedback and targets ask
// for them. In a target, the webhook does.
func (w *wiring) addresses() error {
	if w.inUse != nil {
		return nil
	}
	var err error
	w.inUse, err = addresses.Register(w.mgr)
	return err
}

// following adds the follower, which scheduling calls. The follower observes targets before scheduling does.
func (w *wiring) following(ctx context.Context, registry *engage.Registry) error {
	var err error
	w.follower, err = follow.New(follow.Options{
		Manager:    w.mgr,
		Source:     w.origin,
		Appeared:   w.appeared,
		KeepLabels: w.config.Placement.KeepLabels,
		Registry:   registry,
		Clock:      w.clock,
	})
	if err != nil {
		return err
	}
	return w.follower.Register(ctx)
}

// appeared notifies scheduling that an object appeared, which pods of the namespace may need. Scheduling is added after
// following.
func (w *wiring) appeared(namespace string, ref needs.Ref) {
	if w.scheduler != nil {
		w.scheduler.Appeared(namespace, ref)
	}
}

func (w *wiring) scheduling(registry *engage.Registry) error {
	var err error
	w.scheduler, err = scheduling.New(scheduling.Options{
		Config:     w.mgr.GetConfig(),
		Source:     w.origin,
		Sign:       w.proofs.Sign,
		Registry:   registry,
		Follower:   w.follower,
		Strategy:   w.config.Placement.Strategy,
		Timeout:    w.config.Placement.Timeout.Duration,
		KeepLabels: w.config.Placement.KeepLabels,

		Annotations: w.config.Placement.AnnotationsFromTargets,
		Clock:       w.clock,
		Targets:     w.mgr.GetClient(),
		Metrics:     metrics.Registry,
	})
	if err != nil {
		return err
	}
	return w.mgr.Add(w.scheduler)
}

func (w *wiring) feedback(registry *engage.Registry) error {
	holds, err := w.holding()
	if err != nil {
		return err
	}
	f := feedback.New(feedback.Options{
		Client:    w.mgr.GetClient(),
		Proxies:   w.proxies,
		APIReader: w.mgr.GetAPIReader(),
		Source:    w.origin,
		Keys:      w.proofs.Keys,
		Addresses: w.inUse,
		Tenants:   w.config.Tenants,

		PlacedBeside: w.scheduler.PlacedBeside,
		CannotStart:  w.follower.Repair,

		Annotations: w.config.Placement.AnnotationsFromTargets,
		LastRenewal: holds.LastSent,
		Clock:       w.clock,
		Recorder:    w.mgr.GetEventRecorder("multicluster-feedback"),
		Logger:      w.mgr.GetLogger().WithName("feedback"),
	})
	registry.Observe(f)
	return f.Register(w.mgr)
}

func (w *wiring) nodes(registry *engage.Registry) error {
	address := w.pod.IP
	if !*w.config.KubeletAPI.Enabled {
		address = "" // Nobody answers there.
	}
	holds, err := w.holding()
	if err != nil {
		return err
	}
	nodes, err := node.New(node.Options{
		Client:    w.mgr.GetClient(),
		Proxies:   w.proxies,
		APIReader: w.mgr.GetAPIReader(),
		Config:    w.mgr.GetConfig(),
		Registry:  registry,
		Source:    w.origin,
		Tenants:   w.config.Tenants,
		Clock:     w.clock,
		Address:   address,
		Port:      int32(w.config.KubeletAPI.Port), //nolint:gosec // validated: a port
		Recorder:  w.mgr.GetEventRecorder("multicluster-nodes"),

		// Renewals to siblings do not count: a target could claim to be one, and keep the pods of a lost target there.
		LastRenewal: func(target types.NamespacedName) time.Time { return holds.LastSent(target, "") },
	})
	if err != nil {
		return err
	}
	registry.Observe(nodes)
	return nodes.Register(w.mgr)
}

func (w *wiring) idlePods() error {
	return idle.New(idle.Options{
		Client:      w.mgr.GetClient(),
		APIReader:   w.mgr.GetAPIReader(),
		Acknowledge: *w.config.DaemonSets.Acknowledge,
		Clock:       w.clock,
		Recorder:    w.mgr.GetEventRecorder("multicluster-idle-pods"),
	}).Register(w.mgr)
}

func (w *wiring) kubeletAPI(registry *engage.Registry) error {
	if !*w.config.KubeletAPI.Enabled {
		return nil
	}
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	s, err := server.New(server.Options{
		Port:                  w.config.KubeletAPI.Port,
		PodIP:                 net.ParseIP(w.pod.IP),
		Registry:              registry,
		Reader:                w.mgr.GetAPIReader(), // With the cache, every replica would watch pods.
		Client:                clientset,
		CertificateSignerName: w.config.KubeletAPI.CertificateSignerName,
		Explain:               w.scheduler.Explain,
		Leads:                 w.mgr.Elected(),
		Usage: usage.New(usage.Options{
			Registry: registry, Proxies: w.mgr.GetClient(), ClusterID: w.origin.ClusterID,
			Clock: w.clock, Logger: w.mgr.GetLogger().WithName("usage"),
		}),
		Clock:  w.clock,
		Logger: w.mgr.GetLogger().WithName("kubelet-api"),
	})
	if err != nil {
		return err
	}
	return w.mgr.Add(s)
}

func (w *wiring) targets(registry *engage.Registry) error {
	holds, err := w.holding()
	if err != nil {
		return err
	}
	targets, err := target.New(target.Options{
		Client:    w.mgr.GetClient(),
		APIReader: w.mgr.GetAPIReader(),
		Config:    w.mgr.GetConfig(),
		Scheme:    w.mgr.GetScheme(),
		Registry:  registry,
		Source:    w.origin,
		Verifier:  w.verifier,
		Holds:     holds,
		Lead:      w.lead,
		Tenants:   w.config.Tenants,
		Tokens:    w.tokens,
		Addresses: w.inUse,
		Clock:     w.clock,
		Recorder:  w.mgr.GetEventRecorder("multicluster-targets"),
		Metrics:   metrics.Registry,
	})
	if err != nil {
		return err
	}
	return targets.Register(w.mgr)
}

// holding returns what acquires the Leases in targets, which all parts share.
func (w *wiring) holding() (*hold.Process, error) {
	if w.holds != nil {
		return w.holds, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of the host: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	options := hold.Options{ClusterID: w.origin.ClusterID, Name: host, Clock: w.clock}
	if *w.config.LeaderElection.Enabled {
		leases := clientset.CoordinationV1().Leases(leaseNamespace(w.config, w.pod))
		options.OwnLease = hold.LeaderLease{Leases: leases, Name: w.config.LeaderElection.Name}
	}
	w.holds = hold.New(options)
	return w.holds, nil
}

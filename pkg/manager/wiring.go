package manager

import (
	"context"
	"errors"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/admission"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/server"
)

// wiring adds the parts to a manager.
type wiring struct {
	mgr    ctrl.Manager
	config *configv1alpha1.Configuration
	pod    Pod
	origin translate.Source
	clock  clock.RealClock
	// proofs is nil until it has been added.
	proofs *proof.Keeper
	// follower is nil until following has been added, and scheduler is nil until scheduling has been added.
	follower  *follow.Follower
	scheduler *scheduling.Scheduler
}

func (w *wiring) wire(ctx context.Context, serving certificate) error {
	registry := engage.NewRegistry()
	for _, part := range []struct {
		name string
		add  func() error
	}{
		{"health", func() error { return w.health(serving) }},
		{"admission", func() error { return w.admission(serving) }},
		{"proofs", w.keepProofs},
		{"following", func() error { return w.following(ctx, registry) }},
		{"scheduling", func() error { return w.scheduling(registry) }},
		{"feedback", func() error { return w.feedback(ctx, registry) }},
		{"virtual nodes", func() error { return w.nodes(registry) }},
		{"kubelet API", func() error { return w.kubeletAPI(registry) }},
		{"targets", func() error { return w.targets(registry) }}, // after the registry's observers
		{"sources", func() error { return w.sources(ctx) }},
		{"delegates", w.delegates},
		{"garbage collection", w.garbageCollection},
		{"capacity", w.capacity},
	} {
		if err := part.add(); err != nil {
			return fmt.Errorf("adding %s: %w", part.name, err)
		}
	}
	return nil
}

// health adds the checks that the process lives, and that API servers can call the webhook: it serves, with a
// certificate. A missing certificate makes the process unready but not unhealthy, so that it goes on placing pods.
func (w *wiring) health(serving certificate) error {
	return errors.Join(
		w.mgr.AddHealthzCheck("ping", healthz.Ping),
		w.mgr.AddReadyzCheck("webhook", w.mgr.GetWebhookServer().StartedChecker()),
		w.mgr.AddReadyzCheck("certificate", serving.ready),
	)
}

func (w *wiring) admission(serving certificate) error {
	admission.Register(w.mgr.GetWebhookServer())
	return serving.add(w.mgr)
}

// keepProofs adds the keeper of the key with which the scheduler signs.
func (w *wiring) keepProofs() error {
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	w.proofs = proof.New(proof.Options{
		Client: clientset,
		Secret: types.NamespacedName{Namespace: w.pod.Namespace, Name: w.config.Proof.SecretName},
		Clock:  w.clock,
		Logger: w.mgr.GetLogger().WithName("proofs"),
	})
	return w.mgr.Add(w.proofs)
}

func (w *wiring) scheduling(registry *engage.Registry) error {
	var err error
	w.scheduler, err = scheduling.New(scheduling.Options{
		Config:   w.mgr.GetConfig(),
		Source:   w.origin,
		Sign:     w.proofs.Sign,
		Registry: registry,
		Follower: w.follower,
		Strategy: w.config.Placement.Strategy,
		Timeout:  w.config.Placement.Timeout.Duration,
		Clock:    w.clock,
		Metrics:  metrics.Registry,
	})
	if err != nil {
		return err
	}
	return w.mgr.Add(w.scheduler)
}

func (w *wiring) feedback(ctx context.Context, registry *engage.Registry) error {
	f := feedback.New(feedback.Options{
		Client:    w.mgr.GetClient(),
		APIReader: w.mgr.GetAPIReader(),
		Source:    w.origin,
		Keys:      w.proofs.Keys,
		Clock:     w.clock,
		Recorder:  w.mgr.GetEventRecorder("multicluster-feedback"),
		Logger:    w.mgr.GetLogger().WithName("feedback"),
	})
	registry.Observe(f)
	return f.Register(ctx, w.mgr)
}

func (w *wiring) nodes(registry *engage.Registry) error {
	nodes, err := node.New(node.Options{
		Client:    w.mgr.GetClient(),
		APIReader: w.mgr.GetAPIReader(),
		Config:    w.mgr.GetConfig(),
		Registry:  registry,
		Source:    w.origin,
		Clock:     w.clock,
		Address:   w.pod.IP,
		Port:      int32(w.config.KubeletAPI.Port), //nolint:gosec // validated: a port
	})
	if err != nil {
		return err
	}
	registry.Observe(nodes)
	return nodes.Register(w.mgr)
}

func (w *wiring) kubeletAPI(registry *engage.Registry) error {
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
		Clock:                 w.clock,
		Logger:                w.mgr.GetLogger().WithName("kubelet-api"),
	})
	if err != nil {
		return err
	}
	return w.mgr.Add(s)
}

func (w *wiring) targets(registry *engage.Registry) error {
	targets, err := target.New(target.Options{
		Client:    w.mgr.GetClient(),
		APIReader: w.mgr.GetAPIReader(),
		Config:    w.mgr.GetConfig(),
		Scheme:    w.mgr.GetScheme(),
		Registry:  registry,
		Source:    w.origin,
		Verifier:  w.verifier,
		Tenants:   w.config.Tenants,
		Clock:     w.clock,
		Recorder:  w.mgr.GetEventRecorder("multicluster-targets"),
		Metrics:   metrics.Registry,
	})
	if err != nil {
		return err
	}
	return targets.Register(w.mgr)
}

func (w *wiring) sources(ctx context.Context) error {
	if !*w.config.SourceController.Enabled {
		return nil
	}
	return source.New(source.Options{
		Client:                       w.mgr.GetClient(),
		APIReader:                    w.mgr.GetAPIReader(),
		Clock:                        w.clock,
		Recorder:                     w.mgr.GetEventRecorder("multicluster-sources"),
		SourceClusterRoleName:        w.config.SourceController.ClusterRoleName,
		LeavingClusterRoleName:       w.config.SourceController.LeavingClusterRoleName,
		SummaryViewerClusterRoleName: w.config.SourceController.SummaryViewerClusterRoleName,
		ReaderClusterRoleName:        w.config.SourceController.ReaderClusterRoleName,
		ReleaseNamespace:             w.pod.Namespace,
		EnforceDefaultExclusions:     w.config.SourceController.EnforceDefaultExclusions,
		SecretNamespaces:             w.config.SecretNamespaces,
	}).Register(ctx, w.mgr)
}

func (w *wiring) delegates() error {
	recorder := w.mgr.GetEventRecorder("multicluster-delegates")
	return chaperon.New(w.mgr.GetClient(), w.mgr.GetAPIReader(), w.clock, recorder).Register(w.mgr)
}

func (w *wiring) capacity() error {
	version, err := discovery.NewDiscoveryClientForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a discovery client: %w", err)
	}
	excluded, err := w.config.Capacity.ExcludedLabels()
	if err != nil {
		return fmt.Errorf("reading capacity.excludedLabelsRegexp: %w", err)
	}
	return capacity.New(capacity.Options{
		Client:         w.mgr.GetClient(),
		Cache:          w.mgr.GetCache(),
		Version:        version,
		ClusterID:      w.origin.ClusterID,
		Clock:          w.clock,
		ExcludedLabels: excluded,
	}).Register(w.mgr)
}

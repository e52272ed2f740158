package manager

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	copies "github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/admission"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/endpoints"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/fence"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/garbagecollection"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/presence"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/warnings"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
)

// targetParts returns the parts of a target.
func (w *wiring) targetParts(ctx context.Context) []part {
	return []part{
		{"sources", func() error { return w.sources(ctx) }},
		{"endpoints of sources", w.endpoints},
		{"delegates", w.delegates},
		{"garbage collection", w.garbageCollection},
		{"capacity", w.capacity},
		{"presence", w.presence},
	}
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
		EarlierClusterRoleName:       w.config.SourceController.EarlierClusterRoleName,
		ReleaseNamespace:             w.pod.Namespace,
		LeasesNamespace:              w.config.Leases.Namespace,
		EnforceDefaultExclusions:     w.config.SourceController.EnforceDefaultExclusions,
		SecretNamespaces:             w.config.SecretNamespaces,
	}).Register(ctx, w.mgr)
}

// endpoints adds the parts that limit where EndpointSlices of sources lead.
func (w *wiring) endpoints() error {
	if !*w.config.Endpoints.Check {
		return nil
	}
	if err := w.addresses(); err != nil {
		return err
	}
	ranges := addresses.RangesOf(w.config.Endpoints.AllowedCIDRs, addresses.AllowedForEndpoints)
	leadsTo := addresses.Endpoints{InUse: w.inUse, Ranges: ranges}
	copies.Register(w.mgr.GetWebhookServer(), w.mgr.GetClient(), w.mgr.GetAPIReader(), leadsTo)
	return endpoints.New(endpoints.Options{
		Client: w.mgr.GetClient(), Addresses: leadsTo, Recorder: w.mgr.GetEventRecorder("multicluster-endpoints"),
	}).Register(w.mgr)
}

func (w *wiring) delegates() error {
	recorder := w.mgr.GetEventRecorder("multicluster-delegates")
	self := ""
	if w.pod.ServiceAccount != "" {
		self = serviceaccount.MakeUsername(w.pod.Namespace, w.pod.ServiceAccount)
	}
	delegates := chaperon.New(w.mgr.GetClient(), w.mgr.GetAPIReader(), w.clock, recorder, self)
	if err := w.fencing(delegates); err != nil {
		return err
	}
	if err := w.warnings(delegates); err != nil {
		return err
	}
	return delegates.Register(w.mgr)
}

// warnings adds the part that shows sources what happens to their delegates.
func (w *wiring) warnings(delegates *chaperon.Reconciler) error {
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	watch := warnings.New(warnings.Options{
		Pods: w.mgr.GetClient(), Events: clientset.CoreV1().Events(metav1.NamespaceAll),
		Wake: delegates.Wake, Clock: w.clock, Logger: w.mgr.GetLogger().WithName("warnings"),
	})
	delegates.ShowWarnings(watch)
	return w.mgr.Add(watch)
}

// canFence says whether this manager gives sources Leases, by which it can tell whether they are silent.
func (w *wiring) canFence() bool {
	return w.config.Leases.Namespace != "" && *w.config.SourceController.Enabled
}

// fencing makes delegates end when their source is silent.
func (w *wiring) fencing(delegates *chaperon.Reconciler) error {
	if !w.canFence() {
		return nil
	}
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	watch := fence.New(fence.Options{
		Client: w.mgr.GetClient(), Clients: clientset, Namespace: w.config.Leases.Namespace,
		Wake: delegates.Wake, Clock: w.clock, Logger: w.mgr.GetLogger().WithName("fencing"),
	})
	delegates.FenceBy(watch.Silent)
	return w.mgr.Add(watch)
}

func (w *wiring) garbageCollection() error {
	if !*w.config.GarbageCollection.Enabled {
		return nil
	}
	remover, err := garbagecollection.New(garbagecollection.Options{
		Config:           w.mgr.GetConfig(),
		Cache:            w.mgr.GetCache(),
		Clock:            w.clock,
		SecretNamespaces: w.config.SecretNamespaces,
	})
	if err != nil {
		return fmt.Errorf("making the garbage collector of copies: %w", err)
	}
	return remover.Register(w.mgr)
}

// presence adds the part that shows sources that this manager is awake.
func (w *wiring) presence() error {
	if w.config.Leases.Namespace == "" {
		return nil
	}
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the name of the host: %w", err)
	}
	return w.mgr.Add(&presence.Presence{
		Leases: clientset.CoordinationV1().Leases(w.config.Leases.Namespace),
		Holder: host,
		Fences: w.canFence(),
		Clock:  w.clock,
		Logger: w.mgr.GetLogger().WithName("presence"),
	})
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

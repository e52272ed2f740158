package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/objects"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/policies"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/services"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Options configures a Follower. All fields are required.
type Options struct {
	// Manager is that of the source cluster. Its client and its configuration reach the source's API server.
	Manager ctrl.Manager
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// Appeared is called when pods of a namespace that waited for an object may be scheduled. An empty ref stands for
	// claims.
	Appeared func(namespace string, ref needs.Ref)
	// KeepLabels says whether delegates have the labels of their pods under their own keys, too, unless a target's
	// policy says otherwise.
	KeepLabels bool
	// Registry has the engaged targets.
	Registry *engage.Registry
	// Clock is the real clock, except in tests.
	Clock clock.WithTickerAndDelayedExecution
}

// Follower copies the objects that pods need to their targets. It is safe for concurrent use.
type Follower struct {
	options  Options
	objects  *objects.Follower
	claims   *claims.Claims
	services *services.Follower
	policies *policies.Follower
}

// New makes a Follower, which does nothing before Register.
func New(options Options) (*Follower, error) {
	f := &Follower{options: options}
	return f, errors.Join(f.newObjects(), f.newClaims(), f.newServices(), f.newPolicies())
}

// Register lets the Follower observe targets and run on the leader. It must be called before scheduling observes
// targets, so that the needs of a pod are known before the pod is placed. ctx ends all watches.
func (f *Follower) Register(ctx context.Context) error {
	f.options.Registry.Observe(f.objects)
	f.options.Registry.Observe(f.claims)
	f.options.Registry.Observe(f.services)
	f.objects.Register(ctx, f.options.Manager)
	return errors.Join(
		f.claims.Register(ctx, f.options.Manager),
		f.options.Manager.Add(f.services),
		f.options.Manager.Add(f.policies),
	)
}

// Missing returns a *needs.MissingError if the source lacks an object without which the pod cannot start. It reads
// memory only.
func (f *Follower) Missing(pod *corev1.Pod) error { return f.objects.Missing(pod) }

// Objection returns the reason, for users, why the pod's claims keep it from the target. It is empty if the pod can go
// there. Claims that Release can take back where the pod is now do not count; from may be nil. It reads memory only.
func (f *Follower) Objection(pod *corev1.Pod, target, from *engage.Target) string {
	return f.claims.Objection(pod, target, from)
}

// MayRelease returns an error if Release would not take back a claim: other pods use it, for instance.
func (f *Follower) MayRelease(ctx context.Context, pod *corev1.Pod, from *engage.Target) error {
	return f.claims.MayRelease(ctx, pod, from)
}

// Release takes back the claims without data that keep the pod in a target that has no delegate of it any more. After
// an error, some may still be there.
func (f *Follower) Release(ctx context.Context, pod *corev1.Pod, from *engage.Target) error {
	return f.claims.Release(ctx, pod, from)
}

// Ensure returns nil once everything that the pod needs is in the target, within timeouts.EnsureNeeds. Services that
// cannot be copied do not keep the pod. Claims come last, because they bind a pod to the target.
func (f *Follower) Ensure(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.EnsureNeeds)
	defer cancel()
	if err := f.ensureObjects(ctx, pod, target); err != nil {
		return err
	}
	if err := f.claims.Ensure(ctx, pod, target); err != nil {
		return err
	}
	f.policies.Placing(pod, target)
	return nil
}

func (f *Follower) ensureObjects(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.EnsureObjects)
	defer cancel()
	if err := f.objects.Ensure(ctx, pod, target); err != nil {
		return err
	}
	f.services.Ensure(ctx, pod, target)
	return nil
}

// Refused notes that the target was given up for the pod: a claim that the pod has there for nothing is taken back.
func (f *Follower) Refused(pod *corev1.Pod, target *engage.Target) { f.claims.Refused(pod, target) }

// Repair writes the ConfigMaps, Secrets and ServiceAccounts again that the pod refers to, in the target where its
// delegate cannot start: somebody may have deleted a copy there. It returns at once.
func (f *Follower) Repair(pod *corev1.Pod, target *engage.Target) { f.objects.Repair(pod, target) }

func (f *Follower) newObjects() (err error) {
	f.objects, err = objects.New(objects.Options{
		Config:   f.options.Manager.GetConfig(),
		Source:   f.options.Source,
		Appeared: f.options.Appeared,
		Clock:    f.options.Clock,
		Recorder: f.options.Manager.GetEventRecorder("multicluster-follow"),
		Logger:   f.options.Manager.GetLogger().WithName("follow"),
	})
	if err != nil {
		return fmt.Errorf("making the follower of objects: %w", err)
	}
	return nil
}

// targetExists says whether there is a (Cluster)Target of a name, as targetkind.Name returns it, as far as is known.
func (f *Follower) targetExists(ctx context.Context, name string) bool {
	key := types.NamespacedName{Name: name}
	if namespace, name, namespaced := strings.Cut(name, "/"); namespaced {
		key = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return !apierrors.IsNotFound(f.options.Manager.GetClient().Get(ctx, key, targetkind.New(key)))
}

// connectedSince returns the names of the (Cluster)Targets for pods of a namespace that were connected at some time
// since then.
func (f *Follower) connectedSince(ctx context.Context, namespace string, since time.Time) ([]string, error) {
	targets, err := targetkind.List(ctx, f.options.Manager.GetClient(), namespace)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, target := range targets {
		if targetkind.ConnectedSince(target, since) {
			names = append(names, targetkind.Name(client.ObjectKeyFromObject(target)))
		}
	}
	return names, nil
}

func (f *Follower) newClaims() (err error) {
	f.claims, err = claims.New(claims.Options{
		Config: f.options.Manager.GetConfig(),
		Scheme: f.options.Manager.GetScheme(),
		Mapper: f.options.Manager.GetRESTMapper(),
		Source: f.options.Source,
		Exists: f.targetExists,

		Connected: f.connectedSince,
		Appeared:  func(namespace string) { f.options.Appeared(namespace, needs.Ref{}) },
		Clock:     f.options.Clock,
		Recorder:  f.options.Manager.GetEventRecorder("multicluster-claims"),
		Logger:    f.options.Manager.GetLogger().WithName("claims"),
	})
	if err != nil {
		return fmt.Errorf("making the follower of claims: %w", err)
	}
	return nil
}

func (f *Follower) newServices() (err error) {
	f.services, err = services.New(services.Options{
		Client:      f.options.Manager.GetClient(),
		APIReader:   f.options.Manager.GetAPIReader(),
		Config:      f.options.Manager.GetConfig(),
		Mapper:      f.options.Manager.GetRESTMapper(),
		Source:      f.options.Source,
		KeepSecrets: f.keepSecrets,
		Clock:       f.options.Clock,
		Recorder:    f.options.Manager.GetEventRecorder("multicluster-services"),
		Logger:      f.options.Manager.GetLogger().WithName("services"),
	})
	if err != nil {
		return fmt.Errorf("making the follower of Services: %w", err)
	}
	return nil
}

func (f *Follower) newPolicies() (err error) {
	f.policies, err = policies.New(policies.Options{
		Config:     f.options.Manager.GetConfig(),
		Proxies:    f.options.Manager.GetClient(),
		APIReader:  f.options.Manager.GetAPIReader(),
		TargetOf:   f.options.Registry.ByNode,
		Source:     f.options.Source,
		KeepLabels: f.options.KeepLabels,
		Clock:      f.options.Clock,
		Recorder:   f.options.Manager.GetEventRecorder("multicluster-policies"),
		Logger:     f.options.Manager.GetLogger().WithName("policies"),
	})
	if err != nil {
		return fmt.Errorf("making the follower of NetworkPolicies: %w", err)
	}
	return nil
}

// keepSecrets keeps the TLS Secrets of an Ingress in a target.
func (f *Follower) keepSecrets(
	ctx context.Context, target *engage.Target, ingress types.NamespacedName, names []string,
) error {
	refs := make([]needs.Ref, len(names))
	for i, name := range names {
		refs[i] = needs.Ref{Resource: needs.Secrets, Name: name}
	}
	return f.objects.Keep(ctx, target, ingress.Namespace, "ingress/"+ingress.Name, refs)
}

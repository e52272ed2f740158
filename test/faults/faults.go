package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// fault is something that breaks, and is repaired later.
type fault struct {
	name string
	// part is what breaks. No two faults of a round break the same part.
	part string
	// away says that the source cannot reach the target meanwhile, or that it is really down. A fault that only breaks
	// the source makes no cluster away, also not the source, which is a target, too.
	away bool
	// refuses says that the target does not accept the source meanwhile, or that the source lacks what it needs.
	refuses bool
	// blurs says that the checker cannot see the source meanwhile.
	blurs bool
	// silences says that the source may not renew its Lease in the target meanwhile, though it can reach it.
	silences bool
	// cuts says that the source surely loses the target, if the fault lasts.
	cuts bool
	// brief says that the fault has no duration: it is over when begin returns.
	brief bool
	// atEnd says that begin only prepares the fault, and that its end breaks something.
	atEnd bool
	// prepare does what comes before the fault. It may be nil.
	prepare func(ctx context.Context, l *lab) error
	// begin breaks something. The function that it returns repairs it; it may be nil.
	begin begin
}

type (
	begin func(ctx context.Context, l *lab, r *rand.Rand) (end, error)
	end   func(context.Context) error
)

// The parts of faults that break the network, the leader of the source, and what it needs to connect to the target.
const network, leader, secret = "network", "leader", "secret"

func faults() []fault {
	return []fault{
		partition(),
		{name: "one-way partition, to the target", part: network, away: true, cuts: true,
			begin: cutting("--only-in")},
		{name: "one-way partition, from the target", part: network, away: true, cuts: true,
			begin: cutting("--only-out")},
		{name: "loss of a third of the packets", part: network, away: true, begin: cutting("--percent=33")},
		{name: "the target's API server stopped", part: target, away: true, cuts: true, begin: stopping(target)},
		{name: "the source's API server stopped", part: source, blurs: true, silences: true,
			begin: stopping(source)},
		{name: "the target's API server frozen", part: target, away: true, cuts: true,
			begin: freezing(target, "kube-apiserver")},
		{name: "the source's API server frozen", part: source, blurs: true, silences: true,
			begin: freezing(source, "kube-apiserver")},
		{name: "the target's API server slow", part: target, begin: slowing(target)},
		{name: "the target's etcd frozen", part: target, away: true, begin: freezing(target, "etcd")},
		{name: "the source's etcd frozen", part: source, blurs: true, silences: true,
			begin: freezing(source, "etcd")},
		{name: "the target's kubelet frozen", part: "kubelet", begin: freezing(target, "kubelet")},
		{name: "leader of the source killed", part: leader, brief: true, silences: true, begin: killing(source, true)},
		{name: "leader of the source cut off from its API server", part: leader, silences: true,
			begin: isolating(true)},
		{name: "managers of the source cut off from their API server", part: source,
			silences: true, begin: isolating(false)},
		{name: "replica of the source killed", part: "replica", brief: true, begin: killing(source, false)},
		{name: "leader of the target killed", part: "leader there", brief: true, begin: killing(target, true)},
		{name: "replica of the target killed", part: "replica there", brief: true, begin: killing(target, false)},
		{name: "leader of the source frozen", part: leader, silences: true, begin: freezingManager(source)},
		{name: "leader of the target frozen", part: "leader there", begin: freezingManager(target)},
		{name: "Secret rotated", part: secret, brief: true, begin: rotating},
		{name: "Secret deleted", part: secret, silences: true, refuses: true, begin: withoutSecret},
		{name: "Secret swapped", part: secret, silences: true, refuses: true, begin: swapping},
		{name: "rights revoked", part: secret, silences: true, refuses: true, begin: revoking},
	}
}

func partition() fault {
	return fault{name: "partition", part: network, away: true, cuts: true, begin: cutting()}
}

// killingLeader kills the leader of the source while it places pods. Nothing else may break then: a second delegate
// would have an excuse while a target is away.
func killingLeader() fault {
	return fault{
		name: "leader of the source killed while it places pods", part: leader, brief: true, silences: true,
		begin: killingAmid,
	}
}

func cutting(how ...string) begin {
	return func(ctx context.Context, _ *lab, _ *rand.Rand) (end, error) {
		heal := func(ctx context.Context) error { return clusters(ctx, "heal", target) }
		return heal, clusters(ctx, append([]string{"partition", target}, how...)...)
	}
}

func stopping(name string) begin {
	return func(ctx context.Context, _ *lab, _ *rand.Rand) (end, error) {
		start := func(ctx context.Context) error { return clusters(ctx, "start-apiserver", name) }
		return start, clusters(ctx, "stop-apiserver", name)
	}
}

func freezing(name, component string) begin {
	return func(ctx context.Context, _ *lab, _ *rand.Rand) (end, error) {
		thaw := func(ctx context.Context) error { return clusters(ctx, "thaw", name, component) }
		return thaw, clusters(ctx, "freeze", name, component)
	}
}

// slowing freezes an API server for two of each three seconds. This kernel has no other means to delay packets.
func slowing(name string) begin {
	return func(ctx context.Context, _ *lab, _ *rand.Rand) (end, error) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			var err error
			for ctx.Err() == nil && err == nil {
				if err = clusters(context.WithoutCancel(ctx), "freeze", name, "kube-apiserver"); err == nil {
					wait(ctx, 2*time.Second)
					err = clusters(context.WithoutCancel(ctx), "thaw", name, "kube-apiserver")
				}
				wait(ctx, time.Second)
			}
			done <- err
		}()
		return func(context.Context) error {
			cancel()
			return <-done
		}, nil
	}
}

// manager returns the pod of a cluster's manager: the leader, or another replica.
func (l *lab) manager(ctx context.Context, name string, leader bool) (*corev1.Pod, error) {
	lease, err := l.lease(ctx, name)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := l.clusters[name].List(ctx, pods, client.InNamespace(managerNamespace)); err != nil {
		return nil, err
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		leads := len(holder) > len(pod.Name) && holder[:len(pod.Name)+1] == pod.Name+"_"
		if leads == leader && pod.DeletionTimestamp == nil {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("%s has no such manager (the leader is %q)", name, holder)
}

// killing kills a manager with SIGKILL, so that it cannot release anything. In half of the cases, its container starts
// again. In the others, the pod is replaced, too, so that kills in a row do not add up to a long back-off.
func killing(name string, leader bool) begin {
	return func(ctx context.Context, l *lab, r *rand.Rand) (end, error) {
		pod, err := l.manager(ctx, name, leader)
		if err != nil {
			return nil, err
		}
		if err := signalManager(pod, syscall.SIGKILL); err != nil || r.IntN(2) == 0 {
			return nil, err
		}
		return nil, client.IgnoreNotFound(l.clusters[name].Delete(ctx, pod, client.GracePeriodSeconds(0)))
	}
}

// amidLasts is how long the pods run among which a leader is killed: until the next one has placed some again, were it
// to do so.
const amidLasts = time.Minute

// killingAmid kills the leader of the source when the target has delegates of pods that are not bound, and cordons the
// target's virtual node. The next leader would place these pods again, elsewhere, unless it looks. The target's
// scheduler is frozen until the leader is dead, so that there are such pods.
func killingAmid(ctx context.Context, l *lab, r *rand.Rand) (repair end, err error) {
	thaw, err := freezing(target, "kube-scheduler")(ctx, l, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, thaw(context.WithoutCancel(ctx))) }()
	for range 8 {
		if err := l.create(ctx, l.task(fmt.Sprintf("task-%08x", r.Uint32()), amidLasts, r.IntN(4))); err != nil {
			return nil, err
		}
	}
	if err := until(ctx, l.hasUnscheduled); err != nil {
		return nil, err
	}
	if repair, err = killing(source, true)(ctx, l, r); err != nil {
		return repair, err
	}
	return repair, l.kubectl(ctx, "cordon", "admiralty-"+target, "--request-timeout=30s")
}

// hasUnscheduled returns an error unless the target has a delegate that it has not scheduled.
func (l *lab) hasUnscheduled(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := l.clusters[target].List(ctx, pods, client.InNamespace(l.namespace)); err != nil {
		return err
	}
	if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == "" }) {
		return errors.New("the target has scheduled all delegates")
	}
	return nil
}

func freezingManager(name string) begin {
	return func(ctx context.Context, l *lab, _ *rand.Rand) (end, error) {
		pod, err := l.manager(ctx, name, true)
		if err != nil {
			return nil, err
		}
		thaw := func(context.Context) error {
			_, err := checker.Signal(managerProgram, pod.UID, syscall.SIGCONT)
			return err
		}
		return thaw, signalManager(pod, syscall.SIGSTOP)
	}
}

// isolating cuts the leader of the source off from its API server, or all managers. They reach other clusters.
func isolating(onlyLeader bool) begin {
	return func(ctx context.Context, l *lab, _ *rand.Rand) (end, error) {
		pods := &corev1.PodList{}
		if onlyLeader {
			pod, err := l.manager(ctx, source, true)
			if err != nil {
				return nil, err
			}
			pods.Items = append(pods.Items, *pod)
		} else if err := l.clusters[source].List(ctx, pods, client.InNamespace(managerNamespace)); err != nil {
			return nil, err
		}
		args := []string{"isolate", source}
		for i := range pods.Items {
			for _, ip := range pods.Items[i].Status.PodIPs {
				args = append(args, ip.IP)
			}
		}
		heal := func(ctx context.Context) error { return clusters(ctx, "heal", source) }
		return heal, clusters(ctx, args...)
	}
}

// signalManager sends a signal to a manager. It returns errNothing if there is no process.
func signalManager(pod *corev1.Pod, signal syscall.Signal) error {
	sent, err := checker.Signal(managerProgram, pod.UID, signal)
	if err == nil && sent == 0 {
		return errNothing
	}
	return err
}

// secret returns the Secret with the kubeconfig of the target.
func (l *lab) secret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := l.clusters[source].Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: target}, secret)
	return secret, err
}

// rotating gives the source another token, as `connect --renew` does.
func rotating(ctx context.Context, _ *lab, _ *rand.Rand) (end, error) {
	_, err := run(ctx, "kubectl-multicluster", "connect", target, "--renew", "--timeout=20s",
		"--source-context", source, "--target-context", target)
	return nil, err
}

func withoutSecret(ctx context.Context, l *lab, _ *rand.Rand) (end, error) {
	secret, err := l.secret(ctx)
	if err != nil {
		return nil, err
	}
	again := func(ctx context.Context) error {
		fresh := &corev1.Secret{ObjectMeta: secret.ObjectMeta, Data: secret.Data, Type: secret.Type}
		fresh.ResourceVersion, fresh.UID = "", ""
		return l.clusters[source].Create(ctx, fresh)
	}
	return again, l.clusters[source].Delete(ctx, secret)
}

// swapping lets the name of the target lead to another cluster: the source itself.
func swapping(ctx context.Context, l *lab, _ *rand.Rand) (end, error) {
	right, err := l.secret(ctx)
	if err != nil {
		return nil, err
	}
	wrong, err := run(ctx, "kubectl", "config", "view", "--raw", "--minify", "--flatten", "--context", source)
	if err != nil {
		return nil, err
	}
	swapped := map[string][]byte{}
	for key := range right.Data {
		swapped[key] = []byte(wrong)
	}
	write := func(ctx context.Context, data map[string][]byte) error {
		now, err := l.secret(ctx)
		if err != nil {
			return err
		}
		now.Data = data
		return l.clusters[source].Update(ctx, now)
	}
	back := func(ctx context.Context) error { return write(ctx, right.Data) }
	return back, until(ctx, func(ctx context.Context) error { return write(ctx, swapped) })
}

// revoking takes all rights of the source in the target, as after a theft, and connects anew later.
func revoking(ctx context.Context, _ *lab, _ *rand.Rand) (end, error) {
	err := until(ctx, func(ctx context.Context) error { // The target's API server may be frozen just now.
		_, err := run(ctx, "kubectl-multicluster", "disconnect", "--revoke", "--target-context", target,
			"--source-name", source)
		return err
	})
	return func(ctx context.Context) error {
		_, err := run(ctx, "kubectl-multicluster", "connect", target, "--source-context", source,
			"--target-context", target)
		return err
	}, err
}

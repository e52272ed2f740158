package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// The namespace in which hack/deploy.sh installs the manager, and the first part of its Lease's name.
const (
	installedIn = "admiralty"
	managerName = "multicluster-scheduler"
)

// process is a process of this machine, as its folder in /proc. The clusters' nodes run on this machine, so the manager
// does, too.
type process string

// leader returns the manager's process in the pod that holds the Lease.
func (b *bench) leader(ctx context.Context) (process, error) {
	leases := &coordinationv1.LeaseList{}
	if err := b.source().List(ctx, leases, client.InNamespace(installedIn)); err != nil {
		return "", fmt.Errorf("listing Leases in %s: %w", installedIn, err)
	}
	for _, lease := range leases.Items {
		if !strings.HasPrefix(lease.Name, managerName) || lease.Spec.HolderIdentity == nil {
			continue
		}
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		pod := &corev1.Pod{}
		if err := b.source().Get(ctx, client.ObjectKey{Namespace: installedIn, Name: name}, pod); err != nil {
			return "", fmt.Errorf("getting the pod of the manager that leads: %w", err)
		}
		return processOf(string(pod.UID))
	}
	return "", fmt.Errorf("no manager leads in namespace %s of cluster %s: run make deploy", installedIn, source)
}

// processOf returns the manager's process in a pod. The process's control group is named after the pod.
func processOf(podUID string) (process, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return "", err
	}
	for _, file := range groups {
		group, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(group, []byte("pod"+podUID)) {
			continue
		}
		p := process(filepath.Dir(file))
		stat, err := os.ReadFile(filepath.Join(string(p), "stat"))
		if err != nil {
			continue
		}
		if name, _, err := report.ParseStat(string(stat)); err == nil && programs()[name] == managerProgram {
			return p, nil
		}
	}
	return "", fmt.Errorf("the manager's pod with UID %s has no process on this machine", podUID)
}

// cpu returns the CPU time of the process so far, in seconds.
func (p process) cpu() (float64, error) {
	stat, err := os.ReadFile(filepath.Join(string(p), "stat"))
	if err != nil {
		return 0, err
	}
	_, seconds, err := report.ParseStat(string(stat))
	return seconds, err
}

// resetPeak resets the kernel's record of the peak (proc(5), clear_refs).
func (p process) resetPeak() error {
	return os.WriteFile(filepath.Join(string(p), "clear_refs"), []byte("5"), 0)
}

// peakMiB returns the peak of resident memory since resetPeak.
func (p process) peakMiB() (float64, error) {
	status, err := os.ReadFile(filepath.Join(string(p), "status"))
	if err != nil {
		return 0, err
	}
	return report.ParseMemory(string(status), "VmHWM")
}

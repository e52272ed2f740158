package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// writes counts the writes that API servers have made up to some moment, by cluster and "VERB resource".
type writes map[string]map[string]float64

// rates are writes per second, by cluster and "VERB resource".
type rates map[string]map[string]float64

// cpu is the CPU time used up to some moment, in seconds.
type cpu struct {
	programs map[string]float64
	clusters map[string]float64 // of everything in a cluster's control group, also of processes that have ended
	leader   float64            // of the manager that leads in the source
}

const managerProgram = "manager"

// programs maps the names of the processes whose CPU counts to names for the report: the programs of the clusters, the
// product, and this benchmark. The kernel cuts process names to 15 characters.
func programs() map[string]string {
	return map[string]string{
		"kube-apiserver":  "API servers",
		"etcd":            "etcd",
		"kube-controller": "controller managers",
		"kube-scheduler":  "schedulers",
		"kwok":            "kwok",
		"multicluster-sc": managerProgram,
		"kubelet":         "kubelets",
		"performance":     "this benchmark",
	}
}

func cpuTime(leader process) (cpu, error) {
	used, err := processCPU()
	if err != nil {
		return cpu{}, err
	}
	if used.leader, err = leader.cpu(); err != nil {
		return cpu{}, fmt.Errorf("reading the CPU time of the manager: %w", err)
	}
	return used, nil
}

// since returns the difference to an earlier moment. The time of a process that has ended is lost.
func (c cpu) since(before cpu) cpu {
	less := func(after, before map[string]float64) map[string]float64 {
		d := map[string]float64{}
		for name, seconds := range after {
			d[name] = max(0, seconds-before[name])
		}
		return d
	}
	return cpu{
		programs: less(c.programs, before.programs),
		clusters: less(c.clusters, before.clusters),
		leader:   c.leader - before.leader,
	}
}

// perPod fills in the figures of a measurement with the given clusters as targets. Of the time of a cluster, it leaves
// out what the cluster takes meanwhile without pods: idle is in seconds per second.
func (c cpu) perPod(r *report.Result, targets []string, idle map[string]float64, took time.Duration) {
	r.ManagerCPUSeconds = c.leader
	r.CPUByProgram = map[string]float64{}
	for program, seconds := range c.programs {
		perPod := seconds / float64(r.Pods)
		r.CPUSeconds += perPod
		r.CPUByProgram[program] = perPod
	}
	r.CPUByCluster, r.IdleCPUByCluster = map[string]float64{}, idle
	for cluster, seconds := range c.clusters {
		perPod := max(0, seconds-idle[cluster]*took.Seconds()) / float64(r.Pods)
		r.CPUByCluster[cluster] = perPod
		switch {
		case cluster == source:
			r.SourceCPUSeconds = perPod
		case slices.Contains(targets, cluster):
			r.TargetCPUSeconds += perPod
		}
	}
}

func (b *bench) writes(ctx context.Context) (writes, error) {
	all := writes{}
	for name, c := range b.clusters {
		body, err := c.set.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", name, err)
		}
		if all[name], err = parseWrites(body); err != nil {
			return nil, fmt.Errorf("parsing the metrics of %s: %w", name, err)
		}
	}
	return all, nil
}

// since returns the difference to an earlier moment, without counts that did not change.
func (w writes) since(before writes) writes {
	d := writes{}
	for name, counts := range w {
		d[name] = map[string]float64{}
		for key, n := range counts {
			if n != before[name][key] {
				d[name][key] = n - before[name][key]
			}
		}
	}
	return d
}

// without returns the writes less those that the idle clusters make in the given time. A count is never negative.
func (w writes) without(idle rates, took time.Duration) writes {
	d := writes{}
	for name, counts := range w {
		d[name] = map[string]float64{}
		for key, n := range counts {
			if n -= idle[name][key] * took.Seconds(); n > 0 {
				d[name][key] = n
			}
		}
	}
	return d
}

// per returns the writes per second of a time.
func (w writes) per(took time.Duration) rates {
	idle := rates{}
	for name, counts := range w {
		idle[name] = map[string]float64{}
		for key, n := range counts {
			idle[name][key] = n / took.Seconds()
		}
	}
	return idle
}

// perPod fills in the figures of a measurement with the given clusters as targets.
func (w writes) perPod(r *report.Result, targets []string) {
	r.WritesByResource = map[string]float64{}
	for name, counts := range w {
		for key, n := range counts {
			perPod := n / float64(r.Pods)
			r.WritesPerPod += perPod
			switch {
			case name == source:
				r.SourceWrites += perPod
			case slices.Contains(targets, name):
				r.TargetWrites += perPod
			}
			r.WritesByResource[name+" "+key] = perPod
		}
	}
}

// parseWrites counts successful and failed writes by verb and resource. Leases do not count, because their writes do
// not depend on pods. Reviews do not count, because they store nothing.
func parseWrites(metrics []byte) (map[string]float64, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		return nil, err
	}
	writes := map[string]float64{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := labelsOf(m)
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		resource := labels["resource"]
		if labels["subresource"] != "" {
			resource += "/" + labels["subresource"]
		}
		if resource == "leases" || strings.HasSuffix(resource, "reviews") {
			continue
		}
		writes[labels["verb"]+" "+resource] += m.GetCounter().GetValue()
	}
	return writes, nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range m.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

// processCPU returns the CPU time of the programs' running processes, in seconds (proc(5), /proc/PID/stat: utime,
// stime). Only processes of this checkout's clusters count, and the benchmark itself: the machine may do other work,
// too.
func processCPU() (cpu, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return cpu{}, err
	}
	ours, err := controlGroup(files)
	if err != nil {
		return cpu{}, err
	}
	used, programs := cpu{programs: map[string]float64{}}, programs()
	if used.clusters, err = clusterCPU(ours); err != nil {
		return cpu{}, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // The process has ended.
		}
		name, seconds, err := report.ParseStat(string(data))
		if err != nil {
			return cpu{}, fmt.Errorf("parsing %s: %w", file, err)
		}
		self := file == fmt.Sprintf("/proc/%d/stat", os.Getpid())
		if program, ok := programs[name]; ok && (self || groupOf(file) == ours) {
			used.programs[program] += seconds
		}
	}
	return used, nil
}

// controlGroup returns the control group of this checkout's clusters: the one of their API servers.
func controlGroup(files []string) (string, error) {
	program, err := filepath.Abs(".local/bin/kube-apiserver")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if exe, err := os.Readlink(filepath.Join(filepath.Dir(file), "exe")); err == nil && exe == program {
			return groupOf(file), nil
		}
	}
	return "", fmt.Errorf("no process runs %s: run this in the root of the repository, with clusters up", program)
}

// groupOf returns the first part of the path of a process's control group: the group of the checkout's clusters.
func groupOf(stat string) string {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cgroup"))
	if err != nil {
		return ""
	}
	return parseGroup(string(data))
}

// parseGroup returns "first" of "7:pids:/first/second/third" (cgroups(7)).
func parseGroup(groups string) string {
	line, _, _ := strings.Cut(groups, "\n")
	_, path, _ := strings.Cut(line, ":/")
	first, _, _ := strings.Cut(path, "/")
	return first
}

// clusterCPU returns the CPU time of the control group of each cluster, in seconds.
func clusterCPU(group string) (map[string]float64, error) {
	used := map[string]float64{}
	for _, name := range clusterNames() {
		files, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*cpuacct*", group, name, "cpuacct.usage"))
		if err != nil {
			return nil, err
		}
		files = append(files, filepath.Join("/sys/fs/cgroup", group, name, "cpu.stat"))
		data, err := os.ReadFile(files[0])
		if err != nil {
			return nil, fmt.Errorf("reading the CPU time of cluster %s: %w", name, err)
		}
		if used[name], err = report.ParseUsage(string(data)); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", files[0], err)
		}
	}
	return used, nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// environment describes the machine and the clusters. Call it before anything is measured: it reads the load.
func (b *bench) environment(ctx context.Context) (report.Environment, error) {
	e := report.Environment{Cores: runtime.NumCPU(), Go: runtime.Version()}
	var files [4]string
	for i, name := range []string{"/proc/cpuinfo", "/proc/meminfo", "/proc/sys/kernel/osrelease", "/proc/loadavg"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return e, err
		}
		files[i] = strings.TrimSpace(string(data))
	}
	e.CPU, e.Kernel = cpuModel(files[0]), files[2]
	e.Load, _, _ = strings.Cut(files[3], " ")
	mib, err := report.ParseMemory(files[1], "MemTotal")
	if err != nil {
		return e, fmt.Errorf("parsing /proc/meminfo: %w", err)
	}
	e.MemoryGiB = mib / 1024
	programs := map[string]*string{"etcd": &e.Etcd, "kwok": &e.Kwok, "multicluster-scheduler": &e.Product}
	for name, version := range programs {
		out, err := exec.CommandContext(ctx, ".local/bin/"+name, "--version").Output()
		if err != nil {
			return e, fmt.Errorf("asking %s for its version: %w", name, err)
		}
		*version = versionIn(string(out))
	}
	version, err := b.clusters[source].set.Discovery().ServerVersion()
	if err != nil {
		return e, err
	}
	e.Kubernetes = version.GitVersion
	nodes := &corev1.NodeList{}
	err = b.source().List(ctx, nodes, client.MatchingLabels{"type": "kwok"})
	e.Nodes = len(nodes.Items)
	return e, err
}

// cpuModel returns the model name in /proc/cpuinfo, or the architecture if there is none.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// versionIn finds the version in a program's output: "NAME version v1.2.3 …", "etcd Version: 1.2.3".
func versionIn(output string) string {
	words := strings.Fields(output)
	for i, word := range words[:max(0, len(words)-1)] {
		if strings.EqualFold(strings.TrimSuffix(word, ":"), "version") {
			return words[i+1]
		}
	}
	return "of unknown version"
}

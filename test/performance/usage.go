package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// clockTicks is the kernel's USER_HZ, 100 on every architecture that Go runs on.
const clockTicks = 100

// usage is what the clusters and the machine had done by some moment.
type usage struct {
	writes map[string]map[string]float64 // by cluster, by "VERB resource"
	cpu    float64                       // seconds of CPU of the whole machine
}

func (b *bench) usage(ctx context.Context) (*usage, error) {
	u := &usage{writes: map[string]map[string]float64{}}
	for name, c := range b.clusters {
		body, err := c.set.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", name, err)
		}
		if u.writes[name], err = parseWrites(body); err != nil {
			return nil, fmt.Errorf("parsing the metrics of %s: %w", name, err)
		}
	}
	var err error
	u.cpu, err = machineCPU()
	return u, err
}

// parseWrites counts successful and failed writes by verb and resource. Leases do not count: they are the same with no pods at
// all; nor do reviews, which store nothing.
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

// machineCPU is the CPU time that the machine spent on anything, in seconds (proc(5), /proc/stat: user, nice, system).
func machineCPU() (float64, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	ticks := 0.0
	for _, i := range []int{1, 2, 3, 6, 7} { // not idle, not iowait
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, fmt.Errorf("parsing /proc/stat: %w", err)
		}
		ticks += n
	}
	return ticks / clockTicks, nil
}

// since is the difference to an earlier moment.
func (u *usage) since(before *usage) *usage {
	d := &usage{writes: map[string]map[string]float64{}, cpu: u.cpu - before.cpu}
	for name, writes := range u.writes {
		d.writes[name] = maps.Clone(writes)
		for key, n := range before.writes[name] {
			d.writes[name][key] -= n
		}
	}
	return d
}

// perPod fills in what was used for each pod of the measurement.
func (u *usage) perPod(r *result) {
	pods := float64(r.Pods)
	r.CPUSeconds = u.cpu / pods
	r.WritesByTarget = map[string]float64{}
	for name, writes := range u.writes {
		for key, n := range writes {
			if n == 0 {
				continue
			}
			r.WritesPerPod += n / pods
			if name == "c1" {
				r.SourceWrites += n / pods
			}
			r.WritesByTarget[name+" "+key] = n / pods
		}
	}
}

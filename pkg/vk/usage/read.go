package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/amounts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

const (
	maxBytes  = 8 << 20 // of an answer
	maxCores  = 1 << 20 // of a container
	maxMemory = 1 << 60 // in bytes, of a container
	maxReason = 256     // in bytes
)

// errNoMetrics means that no namespace of the target has metrics.
var errNoMetrics = errors.New("the target serves no metrics of pods: install metrics-server there")

// names are samples by delegate and container.
type names map[string]map[string]sample

// podMetricsList has the fields of a PodMetricsList that are read. Amounts are texts, because some are dangerous to
// decode.
type podMetricsList struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Timestamp  metav1.Time     `json:"timestamp"`
		Window     metav1.Duration `json:"window"`
		Containers []struct {
			Name  string `json:"name"`
			Usage struct {
				CPU    string `json:"cpu"`
				Memory string `json:"memory"`
			} `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// read reads the samples of the source's delegates in a namespace.
func (m *Meter) read(ctx context.Context, target *engage.Target, namespace string) (names, error) {
	location, _, err := rest.DefaultServerUrlFor(target.Config)
	if err != nil {
		return nil, fmt.Errorf("reading the address: %w", err)
	}
	location.Path = path.Join("/", location.Path, "apis/metrics.k8s.io/v1beta1/namespaces", namespace, "pods")
	selector := v1alpha1.LabelParentClusterID + "=" + m.options.ClusterID
	location.RawQuery = url.Values{"labelSelector": {selector}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	caller, err := rest.HTTPClientFor(target.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	answer, err := caller.Do(request)
	if err != nil {
		return nil, errors.New(wire.Shorten(err.Error(), maxReason))
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK:
		return decode(answer.Body)
	case http.StatusNotFound, http.StatusServiceUnavailable:
		return nil, errNoMetrics
	case http.StatusForbidden:
		return nil, fmt.Errorf("this source may not list pods.metrics.k8s.io in namespace %q there: "+
			"upgrade the chart of the target, or add the right to the role of the source", namespace)
	default:
		return nil, fmt.Errorf("the answer has the status %d", answer.StatusCode)
	}
}

// decode leaves out numbers that are not plausible.
func decode(body io.Reader) (names, error) {
	list := podMetricsList{}
	if err := json.NewDecoder(io.LimitReader(body, maxBytes)).Decode(&list); err != nil {
		return nil, fmt.Errorf("decoding the answer: %w", err)
	}
	all := names{}
	for _, pod := range list.Items {
		of := map[string]sample{}
		for _, container := range pod.Containers {
			cores, okCores := amount(container.Usage.CPU, maxCores)
			memory, okMemory := amount(container.Usage.Memory, maxMemory)
			if okCores && okMemory && memory >= 1 {
				of[container.Name] = sample{
					at: pod.Timestamp.Time, window: pod.Window.Duration, cores: cores, memory: uint64(memory),
				}
			}
		}
		all[pod.Metadata.Name] = of
	}
	return all, nil
}

func amount(text string, most float64) (float64, bool) {
	if text == "" || !amounts.IsSound(text) {
		return 0, false
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, false
	}
	value := quantity.AsApproximateFloat64()
	return value, value >= 0 && value <= most
}

package chaperon

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestEachResultIsCountedFromZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(newMetrics().delegates); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("got %v, %v", families, err)
	}
	got := map[string]float64{}
	for _, series := range families[0].GetMetric() {
		got[series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
	}
	want := map[string]float64{
		resultCreated: 0, resultRemade: 0, resultRefused: 0, resultLost: 0, resultFenced: 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

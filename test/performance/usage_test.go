package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseWritesCountsWhatIsStored(t *testing.T) {
	got, err := parseWrites([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 10
apiserver_request_total{code="409",resource="pods",subresource="",verb="POST"} 1
apiserver_request_total{code="200",resource="pods",subresource="status",verb="PATCH"} 20
apiserver_request_total{code="200",resource="pods",subresource="",verb="GET"} 99
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 99
apiserver_request_total{code="201",resource="subjectaccessreviews",subresource="",verb="POST"} 99
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"POST pods": 11, "PATCH pods/status": 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseWrites (-want +got):\n%s", diff)
	}
}

func TestParseStatReadsNamesWithParentheses(t *testing.T) {
	name, seconds, err := parseStat("17 (a (b) c) S 1 17 17 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 100")
	if err != nil || name != "a (b) c" || seconds != 3 {
		t.Errorf("parseStat: got %q, %v s, %v, want \"a (b) c\", 3 s", name, seconds, err)
	}
	if _, _, err := parseStat("17 (a) S 1"); err == nil {
		t.Error("parseStat of a short line: no error")
	}
}

func TestPercentile(t *testing.T) {
	var latencies []time.Duration
	for i := 100; i > 0; i-- {
		latencies = append(latencies, time.Duration(i)*time.Second)
	}
	if p50, p99 := percentile(latencies, 50), percentile(latencies, 99); p50 != 50 || p99 != 99 {
		t.Errorf("percentiles of 1 to 100: p50 %v, p99 %v", p50, p99)
	}
}

package target

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// reporter is a Reconciler whose status writes and events can be read.
type reporter struct {
	*Reconciler
	client client.Client
	events chan string
}

func newReporter(t *testing.T, status v1alpha1.TargetStatus, funcs interceptor.Funcs) reporter {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ClusterTarget{}).
		WithObjects(&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}, Status: status}).
		WithInterceptorFuncs(funcs).Build()
	recorder := events.NewFakeRecorder(10)
	r, err := New(Options{
		Client: c, APIReader: c, Config: &rest.Config{Host: "http://127.0.0.1:1"}, Registry: engage.NewRegistry(),
		Clock: testclock.NewFakeClock(time.Unix(1000, 0)), Recorder: recorder, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return reporter{Reconciler: r, client: c, events: recorder.Events}
}

// writes returns the status after a finding, and the beginnings of the events.
func (r reporter) writes(t *testing.T, found finding, warnings ...metav1.Condition) (v1alpha1.TargetStatus, []string) {
	t.Helper()
	target := &v1alpha1.ClusterTarget{}
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "c2"}, target); err != nil {
		t.Fatal(err)
	}
	if err := r.writeStatus(t.Context(), target, found, warnings...); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "c2"}, target); err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for len(r.events) > 0 {
		words := strings.Fields(<-r.events)
		recorded = append(recorded, words[0]+" "+words[1])
	}
	return target.Status, recorded
}

// withConditions returns a status that an earlier manager wrote.
func withConditions(all ...metav1.Condition) v1alpha1.TargetStatus {
	status := v1alpha1.TargetStatus{NodeName: "admiralty-c2", Conditions: all}
	for i := range all {
		all[i].LastTransitionTime = metav1.NewTime(time.Unix(1, 0))
	}
	return status
}

func isCondition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because"}
}

func TestWhatAStatusShowsAndWhichEventsFollow(t *testing.T) {
	yes := connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "because")
	lost := disconnected(v1alpha1.ReasonUnreachable, "because")
	unsure := connected(metav1.ConditionTrue, v1alpha1.ReasonInvalidSummary, "because")
	awake := isCondition(v1alpha1.ConditionAwake, metav1.ConditionTrue, v1alpha1.ReasonAwake)
	silent := isCondition(v1alpha1.ConditionAwake, metav1.ConditionFalse, v1alpha1.ReasonSilent)
	quick := isCondition(v1alpha1.ConditionResponsive, metav1.ConditionTrue, v1alpha1.ReasonResponsive)
	slow := isCondition(v1alpha1.ConditionResponsive, metav1.ConditionFalse, v1alpha1.ReasonSlow)
	limited := isCondition(v1alpha1.ConditionRestricted, metav1.ConditionFalse, v1alpha1.ReasonWouldRefuse)
	free := isCondition(v1alpha1.ConditionRestricted, metav1.ConditionTrue, v1alpha1.ReasonRestricted)
	other := limited
	other.Message = "because of something else"
	for name, test := range map[string]struct {
		was      v1alpha1.TargetStatus
		found    finding
		warnings []metav1.Condition
		want     []string // the reasons of the conditions
		events   []string
	}{
		"nothing is known yet":              {want: []string{"Connecting"}},
		"an earlier manager knew something": {was: withConditions(lost), want: []string{"Unreachable"}},
		"it is connected": {
			found: finding{condition: yes},
			want:  []string{"Connected"}, events: []string{"Normal Connected"},
		},
		"it is still connected": {
			was: withConditions(yes), found: finding{condition: yes, version: "v1"},
			want: []string{"Connected"},
		},
		"it is lost": {
			was: withConditions(yes), found: finding{condition: lost},
			want: []string{"Unreachable"}, events: []string{"Warning Unreachable"},
		},
		"it is lost for another reason": {
			was: withConditions(lost), found: finding{condition: disconnected(v1alpha1.ReasonForbidden, "")},
			want: []string{"Forbidden"}, events: []string{"Warning Forbidden"},
		},
		"it is connected, and its summary is broken": {
			was: withConditions(yes), found: finding{condition: unsure},
			want: []string{"InvalidSummary"}, events: []string{"Warning InvalidSummary"},
		},
		"its manager is silent": {
			was: withConditions(yes, awake), found: finding{condition: yes, awake: silent},
			want: []string{"Connected", "Silent"}, events: []string{"Warning Silent"},
		},
		"its manager is silent from the beginning": {
			was: withConditions(yes), found: finding{condition: yes, awake: silent},
			want: []string{"Connected", "Silent"}, events: []string{"Warning Silent"},
		},
		"its manager is awake": {
			was: withConditions(yes), found: finding{condition: yes, awake: awake},
			want: []string{"Connected", "Awake"},
		},
		"its manager is awake again": {
			was: withConditions(yes, silent), found: finding{condition: yes, awake: awake},
			want: []string{"Connected", "Awake"}, events: []string{"Normal Awake"},
		},
		"its manager is silent, as far as an earlier manager knew": {
			was:   withConditions(yes, silent),
			found: finding{condition: yes, awake: awake, awakeUnknown: true, version: "v1"},
			want:  []string{"Connected", "Silent"},
		},
		"its manager has no Lease any more": {
			was: withConditions(yes, silent), found: finding{condition: yes},
			want: []string{"Connected"}, events: []string{"Normal " + v1alpha1.ReasonNoLease},
		},
		"nothing is known of a Lease": {
			was: withConditions(yes), found: finding{condition: yes, awakeUnknown: true, version: "v1"},
			want: []string{"Connected"},
		},
		"it is slow": {
			was: withConditions(yes, quick), found: finding{condition: yes, responsive: slow},
			want: []string{"Connected", "Slow"}, events: []string{"Warning Slow"},
		},
		"it answers well again": {
			was: withConditions(yes, slow), found: finding{condition: yes, responsive: quick},
			want: []string{"Connected", "Responsive"}, events: []string{"Normal Responsive"},
		},
		"it was slow, as far as an earlier manager knew": {
			was: withConditions(yes, slow), found: finding{condition: yes, version: "v1"},
			want: []string{"Connected", "Slow"},
		},
		"the next version limits it": {
			was: withConditions(yes), found: finding{condition: yes}, warnings: []metav1.Condition{limited},
			want: []string{"Connected", "WouldRefuse"}, events: []string{"Warning WouldRefuse"},
		},
		"the next version still limits it": {
			was: withConditions(yes, limited), found: finding{condition: yes, version: "v1"},
			warnings: []metav1.Condition{limited}, want: []string{"Connected", "WouldRefuse"},
		},
		"the next version limits it for another reason": {
			was: withConditions(yes, limited), found: finding{condition: yes}, warnings: []metav1.Condition{other},
			want: []string{"Connected", "WouldRefuse"}, events: []string{"Warning WouldRefuse"},
		},
		"the next version does not limit it any more": {
			was: withConditions(yes, limited), found: finding{condition: yes}, warnings: []metav1.Condition{free},
			want: []string{"Connected", "Restricted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, recorded := newReporter(t, test.was, interceptor.Funcs{}).writes(t, test.found, test.warnings...)
			var reasons []string
			for _, c := range status.Conditions {
				reasons = append(reasons, c.Reason)
			}
			slices.Sort(reasons)
			if diff := cmp.Diff(slices.Sorted(slices.Values(test.want)), reasons); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, recorded); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A target that was set back is known by an epoch that is too low, so the highest must not get lost.
func TestAStatusKeepsWhatIsKnownOfTheTarget(t *testing.T) {
	was := withConditions(connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "because"))
	was.Epoch, was.EpochOf, was.ClusterID, was.KubernetesVersion = 7, "here", "id", "v1.36.0"
	for name, test := range map[string]struct {
		found finding
		want  v1alpha1.TargetStatus
	}{
		"nothing new": {finding{}, v1alpha1.TargetStatus{Epoch: 7, EpochOf: "here"}},
		"a lower epoch": {
			finding{epoch: 6, epochOf: "here"}, v1alpha1.TargetStatus{Epoch: 7, EpochOf: "here"},
		},
		"a higher epoch": {finding{epoch: 8, epochOf: "here"}, v1alpha1.TargetStatus{Epoch: 8, EpochOf: "here"}},
		"a lower epoch, of another Lease": {
			finding{epoch: 1, epochOf: "there"}, v1alpha1.TargetStatus{Epoch: 1, EpochOf: "there"},
		},
		"no epoch, of another Lease": {finding{epochOf: "there"}, v1alpha1.TargetStatus{Epoch: 7, EpochOf: "here"}},
		"another cluster": {
			finding{clusterID: "new"}, v1alpha1.TargetStatus{Epoch: 7, EpochOf: "here", ClusterID: "new"},
		},
		"another version": {
			finding{version: "v1.37.1"}, v1alpha1.TargetStatus{Epoch: 7, EpochOf: "here", KubernetesVersion: "v1.37.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.found.condition = disconnected(v1alpha1.ReasonUnreachable, "")
			got, _ := newReporter(t, was, interceptor.Funcs{}).writes(t, test.found)
			if test.want.ClusterID == "" {
				test.want.ClusterID = was.ClusterID
			}
			if test.want.KubernetesVersion == "" {
				test.want.KubernetesVersion = was.KubernetesVersion
			}
			test.want.NodeName, got.Conditions, got.Fences = was.NodeName, nil, nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAChangeThatWasNotWrittenIsNoEvent(t *testing.T) {
	away := errors.New("the API server is away")
	gone := apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("clustertargets").GroupResource(), "c2")
	for name, test := range map[string]struct{ answer, want error }{
		"the API server does not answer": {away, away}, "the target is gone": {gone, nil},
	} {
		r := newReporter(t, v1alpha1.TargetStatus{}, interceptor.Funcs{SubResourceApply: func(
			context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption,
		) error {
			return test.answer
		}})
		target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
		found := finding{condition: disconnected(v1alpha1.ReasonUnreachable, "")}
		if err := r.writeStatus(t.Context(), target, found); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v", name, err)
		}
		if len(r.events) > 0 {
			t.Errorf("%s: event %s", name, <-r.events)
		}
	}
}

func TestTheMetricsOfATargetFollowItsConditions(t *testing.T) {
	is := func(kind string, yes bool) metav1.Condition {
		status := metav1.ConditionFalse
		if yes {
			status = metav1.ConditionTrue
		}
		return isCondition(kind, status, "Reason")
	}
	for name, test := range map[string]struct {
		found    finding
		warnings []metav1.Condition
		want     map[string]float64 // those that are not 0
	}{
		"connected": {
			found: finding{condition: is(v1alpha1.ConditionConnected, true), awake: is(v1alpha1.ConditionAwake, true)},
			want:  map[string]float64{"connected": 1},
		},
		"too expensive": {
			found: finding{condition: disconnected(v1alpha1.ReasonOverBudget, "")},
			want:  map[string]float64{"over_budget": 1},
		},
		"silent, and slow": {
			found: finding{
				condition: is(v1alpha1.ConditionConnected, true), awake: is(v1alpha1.ConditionAwake, false),
				responsive: is(v1alpha1.ConditionResponsive, false),
			},
			want: map[string]float64{"connected": 1, "silent": 1, "unresponsive": 1},
		},
		"its Secret is broken": {
			found: finding{condition: disconnected(v1alpha1.ReasonSecretNotFound, "")},
			want:  map[string]float64{"secret_unusable": 1},
		},
		"its Secret is broken, and it goes on": {
			found:    finding{condition: is(v1alpha1.ConditionConnected, true)},
			warnings: []metav1.Condition{is(v1alpha1.ConditionSecretUsable, false)},
			want:     map[string]float64{"connected": 1, "secret_unusable": 1},
		},
	} {
		r := newReporter(t, v1alpha1.TargetStatus{}, interceptor.Funcs{})
		registry := prometheus.NewRegistry()
		if err := r.metrics.register(registry); err != nil {
			t.Fatal(err)
		}
		r.writes(t, test.found, test.warnings...)
		got := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			short := strings.TrimPrefix(family.GetName(), "multicluster_scheduler_target_")
			if value := family.GetMetric()[0].GetGauge().GetValue(); short != "reason" && value != 0 {
				got[short] = value
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

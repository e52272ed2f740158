package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/admission"
)

func create(raw string) ctrladmission.Request {
	return ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "request", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(raw)},
	}}
}

// respond answers as the webhook does over HTTP.
func respond(t *testing.T, req ctrladmission.Request) ctrladmission.Response {
	t.Helper()
	return (&webhook.Admission{Handler: admission.Handler{}}).Handle(t.Context(), req)
}

// apply returns the object as the API server goes on with it.
func apply(t *testing.T, raw string) string {
	t.Helper()
	resp := respond(t, create(raw))
	if !resp.Allowed {
		t.Fatalf("denied: %v", resp.Result)
	}
	if resp.Patch == nil {
		return raw
	}
	if resp.PatchType == nil || *resp.PatchType != admissionv1.PatchTypeJSONPatch || resp.UID != "request" {
		t.Errorf("response has patch type %v and UID %q", resp.PatchType, resp.UID)
	}
	operations, err := jsonpatch.DecodePatch(resp.Patch)
	if err != nil {
		t.Fatalf("decoding the patch %s: %v", resp.Patch, err)
	}
	patched, err := operations.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("applying the patch %s: %v", resp.Patch, err)
	}
	return string(patched)
}

func decoded(t *testing.T, raw string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(raw), &object); err != nil {
		t.Fatalf("decoding %s: %v", raw, err)
	}
	return object
}

// The pods below have fields of a Kubernetes version to come: those called new.
const plain = `{
  "apiVersion": "v1", "kind": "Pod", "new": 1,
  "metadata": {"generateName": "web-", "new": [1], "annotations": {"multicluster.admiralty.io/elect": "", "a": "b"}},
  "spec": {"new": {"a": 1.0},
    "containers": [{"name": "main", "new": true, "resources": {"limits": {"cpu": 1}, "new": {}}}],
    "terminationGracePeriodSeconds": 12345678901234567}
}`

const plainPatched = `{
  "apiVersion": "v1", "kind": "Pod", "new": 1,
  "metadata": {"generateName": "web-", "new": [1], "annotations": {"multicluster.admiralty.io/elect": "", "a": "b",
    "multicluster.admiralty.io/original-constraints": "{}"}},
  "spec": {"new": {"a": 1.0},
    "containers": [{"name": "main", "new": true, "resources": {"limits": {"cpu": 1}, "new": {}}}],
    "terminationGracePeriodSeconds": 12345678901234567,
    "schedulerName": "admiralty-proxy", "nodeSelector": {"virtual-kubelet.io/provider": "admiralty"},
    "tolerations": [
      {"key": "virtual-kubelet.io/provider", "operator": "Equal", "value": "admiralty", "effect": "NoSchedule"},
      {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
      {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}]}
}`

const constrained = `{
  "metadata": {"name": "web", "annotations": {"multicluster.admiralty.io/elect": ""}},
  "spec": {"schedulerName": "volcano", "nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
      "tolerationSeconds": 3, "new": 1}]}
}`

const constrainedPatched = `{
  "metadata": {"name": "web", "annotations": {"multicluster.admiralty.io/elect": "",
    "multicluster.admiralty.io/original-constraints": "{\"nodeSelector\":{\"disk\":\"ssd\"},` +
	`\"tolerations\":[{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",` +
	`\"effect\":\"NoExecute\",\"tolerationSeconds\":3}],` +
	`\"affinity\":{\"nodeAffinity\":{}},` +
	`\"topologySpreadConstraints\":[{\"maxSkew\":1,\"topologyKey\":\"zone\",` +
	`\"whenUnsatisfiable\":\"ScheduleAnyway\"}],` +
	`\"schedulerName\":\"volcano\"}"}},
  "spec": {"schedulerName": "admiralty-proxy", "nodeSelector": {"virtual-kubelet.io/provider": "admiralty"},
    "tolerations": [
      {"key": "virtual-kubelet.io/provider", "operator": "Equal", "value": "admiralty", "effect": "NoSchedule"},
      {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
      {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
      {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 3, "new": 1}]}
}`

const fromSpec = `{
  "metadata": {"name": "web", "annotations": {"multicluster.admiralty.io/elect": "",
    "multicluster.admiralty.io/use-constraints-from-spec-for-proxy-pod-scheduling": ""}},
  "spec": {"nodeSelector": {"disk": "ssd"}, "affinity": {"new": 1, "nodeAffinity": {"new": 2}},
    "topologySpreadConstraints": [
      {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "new": 3}],
    "tolerations": [{"key": "gpu", "operator": "Exists", "new": 4}, {"key": "zone", "operator": "Exists", "new": 5}]}
}`

const fromSpecPatched = `{
  "metadata": {"name": "web", "annotations": {"multicluster.admiralty.io/elect": "",
    "multicluster.admiralty.io/use-constraints-from-spec-for-proxy-pod-scheduling": "",
    "multicluster.admiralty.io/original-constraints": "{}"}},
  "spec": {"schedulerName": "admiralty-proxy",
    "nodeSelector": {"disk": "ssd", "virtual-kubelet.io/provider": "admiralty"},
    "affinity": {"new": 1, "nodeAffinity": {"new": 2}},
    "topologySpreadConstraints": [
      {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "new": 3}],
    "tolerations": [
      {"key": "virtual-kubelet.io/provider", "operator": "Equal", "value": "admiralty", "effect": "NoSchedule"},
      {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
      {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
      {"key": "gpu", "operator": "Exists", "new": 4}, {"key": "zone", "operator": "Exists", "new": 5}]}
}`

func TestPatchTouchesNothingElse(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"a pod without constraints":                     {plain, plainPatched},
		"a pod with constraints for its delegate":       {constrained, constrainedPatched},
		"a pod whose constraints choose a virtual node": {fromSpec, fromSpecPatched},
		"a pod that is not elected":                     {`{"metadata":{},"new":1}`, `{"metadata":{},"new":1}`},
		"a pod whose annotations have a similar key": {
			`{"metadata":{"annotations":{"elect":""}}}`, `{"metadata":{"annotations":{"elect":""}}}`,
		},
		"a proxy, when the webhook is called once more": {plainPatched, plainPatched},
		"a proxy with constraints, called once more":    {constrainedPatched, constrainedPatched},
		"a proxy chosen by its spec, called once more":  {fromSpecPatched, fromSpecPatched},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(decoded(t, tc.want), decoded(t, apply(t, tc.raw))); diff != "" {
				t.Errorf("unexpected pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoPatchForAProxy(t *testing.T) {
	for _, raw := range []string{plainPatched, constrainedPatched, fromSpecPatched} {
		if resp := respond(t, create(raw)); len(resp.Patch) > 0 || !resp.Allowed {
			t.Errorf("a proxy gets the patch %s, want none", resp.Patch)
		}
	}
}

func TestPatchReplacesWhatTheUserPutIntoOurAnnotation(t *testing.T) {
	raw := `{"metadata":{"annotations":{"multicluster.admiralty.io/elect":"",
	  "multicluster.admiralty.io/original-constraints":"x"}},"spec":{}}`
	annotations := decoded(t, apply(t, raw))["metadata"].(map[string]any)["annotations"].(map[string]any)
	if got := annotations["multicluster.admiralty.io/original-constraints"]; got != "{}" {
		t.Errorf("the annotation is %q, want {}", got)
	}
}

func TestDryRunIsAnsweredAlike(t *testing.T) {
	dryRun := create(plain)
	dryRun.DryRun = new(bool)
	*dryRun.DryRun = true
	if diff := cmp.Diff(string(respond(t, create(plain)).Patch), string(respond(t, dryRun).Patch)); diff != "" {
		t.Errorf("unexpected patch in a dry run (-want +got):\n%s", diff)
	}
}

func TestOtherRequestsPass(t *testing.T) {
	update, subresource := create(plain), create(plain)
	update.Operation = admissionv1.Update
	subresource.SubResource = "binding"
	for name, req := range map[string]ctrladmission.Request{"update": update, "binding": subresource} {
		if resp := respond(t, req); !resp.Allowed || resp.Patch != nil {
			t.Errorf("%s: allowed %t with patch %s, want allowed without", name, resp.Allowed, resp.Patch)
		}
	}
}

func TestDenials(t *testing.T) {
	for name, tc := range map[string]struct {
		raw    string
		code   int32
		reason metav1.StatusReason
		want   []string
		fields []string
	}{
		"a misspelt field in an annotation": {
			raw: `{"metadata":{"name":"web","annotations":{"multicluster.admiralty.io/elect":"",
			  "multicluster.admiralty.io/proxy-pod-scheduling-constraints":"nodeSelectr: {a: b}"}}}`,
			code: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid,
			want: []string{`Pod "web" is invalid: ` +
				`metadata.annotations[multicluster.admiralty.io/proxy-pod-scheduling-constraints]: ` +
				`Invalid value: "nodeSelectr: {a: b}": unknown field "nodeSelectr"`},
			fields: []string{"metadata.annotations[multicluster.admiralty.io/proxy-pod-scheduling-constraints]"},
		},
		"several faults of a pod of a controller": {
			raw: `{"metadata":{"generateName":"web-","annotations":{"multicluster.admiralty.io/elect":"",
			  "multicluster.admiralty.io/no-prefix-label-regexp":"("}},"spec":{"nodeName":"n1"}}`,
			code: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid,
			want: []string{
				`Pod "web-" is invalid`, "spec.nodeName: Forbidden", "no-prefix-label-regexp]: Invalid value",
			},
			fields: []string{"spec.nodeName", "metadata.annotations[multicluster.admiralty.io/no-prefix-label-regexp]"},
		},
		"no JSON": {raw: `{`, code: http.StatusBadRequest, want: []string{"decoding the pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			resp := respond(t, create(tc.raw))
			if resp.Allowed || resp.Patch != nil {
				t.Fatalf("allowed %t with patch %s, want denied", resp.Allowed, resp.Patch)
			}
			if resp.Result.Code != tc.code || resp.Result.Reason != tc.reason {
				t.Errorf("code %d, reason %q, want %d, %q", resp.Result.Code, resp.Result.Reason, tc.code, tc.reason)
			}
			for _, want := range tc.want {
				if !strings.Contains(resp.Result.Message, want) {
					t.Errorf("message %q does not contain %q", resp.Result.Message, want)
				}
			}
			var fields []string
			if resp.Result.Details != nil {
				for _, cause := range resp.Result.Details.Causes {
					fields = append(fields, cause.Field)
				}
			}
			if diff := cmp.Diff(tc.fields, fields); diff != "" {
				t.Errorf("unexpected fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRegister(t *testing.T) {
	server := webhook.NewServer(webhook.Options{})
	admission.Register(server, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admission.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, pattern := server.WebhookMux().Handler(request); pattern != "/mutate-pods" {
		t.Errorf("%s is served by %q", admission.Path, pattern)
	}
}

func BenchmarkHandle(b *testing.B) {
	req := create(constrained)
	for b.Loop() {
		admission.Handler{}.Handle(b.Context(), req)
	}
}

// An API server never sends these.
func TestCostlyAmountsAreNotDecoded(t *testing.T) {
	for _, amount := range []string{"1e-999999999", "10000000000000000001e2147483639", strings.Repeat("7", 1e6)} {
		pod := fmt.Sprintf(`{"metadata": {}, "spec": {"overhead": {"cpu": %q}}}`, amount)
		if resp := respond(t, create(pod)); resp.Allowed || resp.Result.Code != http.StatusBadRequest {
			t.Errorf("%.30s: allowed %v, %v", amount, resp.Allowed, resp.Result)
		}
	}
}

func TestAPodWithoutAGracePeriodGetsOneSecond(t *testing.T) {
	const pod = `{"metadata": {"annotations": {"multicluster.admiralty.io/elect": ""}},
  "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main"}]}}`
	resp := respond(t, create(pod))
	if !resp.Allowed || len(resp.Warnings) != 1 || !strings.Contains(resp.Warnings[0], "GracePeriodSeconds is 1") {
		t.Errorf("allowed %v, warnings %q", resp.Allowed, resp.Warnings)
	}
	if patched := apply(t, pod); !strings.Contains(patched, `"terminationGracePeriodSeconds":1`) {
		t.Errorf("patched: %s", patched)
	}
	if resp := respond(t, create(strings.Replace(pod, ": 0", ": 5", 1))); len(resp.Warnings) > 0 {
		t.Errorf("warnings %q", resp.Warnings)
	}
}

// A pod whose fence cannot hold beside the default toleration. It copies a proxy's annotation.
const fencedLate = `{
  "metadata": {"name": "web", "annotations": {"multicluster.admiralty.io/elect": "",
    "multicluster.admiralty.io/fence-after-seconds": "600", "multicluster.admiralty.io/fenced-after-seconds": "60"},
    "ownerReferences": [{"kind": "ReplicaSet", "controller": true}]},
  "spec": {"containers": [{"name": "main"}]}}`

func TestAPodIsWarnedOfATolerationThatIsTooShortForItsFence(t *testing.T) {
	resp := respond(t, create(fencedLate))
	if !resp.Allowed || len(resp.Warnings) != 1 || !strings.Contains(resp.Warnings[0], "for at least 690 s") {
		t.Errorf("allowed %v, warnings %q", resp.Allowed, resp.Warnings)
	}
	if patched := apply(t, fencedLate); strings.Contains(patched, "fenced-after-seconds") ||
		!strings.Contains(patched, "fence-after-seconds") {
		t.Errorf("patched: %s", patched)
	}
	held := strings.ReplaceAll(fencedLate, `"600"`, `"60"`)
	if resp := respond(t, create(held)); !resp.Allowed || len(resp.Warnings) > 0 {
		t.Errorf("allowed %v, warnings %q", resp.Allowed, resp.Warnings)
	}
	malformed := strings.ReplaceAll(fencedLate, `"600"`, `"10m"`)
	if resp := respond(t, create(malformed)); resp.Allowed || !strings.Contains(resp.Result.Message, "whole number") {
		t.Errorf("allowed %v, %v", resp.Allowed, resp.Result)
	}
}

func TestAPodIsWarnedOfFieldsThatThisVersionDoesNotKnow(t *testing.T) {
	resp := respond(t, create(plain))
	if !resp.Allowed || len(resp.Warnings) != 1 {
		t.Fatalf("allowed %v, warnings %q", resp.Allowed, resp.Warnings)
	}
	for _, field := range []string{"spec.new", "spec.containers[0].new", "spec.containers[0].resources.new"} {
		if !strings.Contains(resp.Warnings[0], field) {
			t.Errorf("%s is not in the warning %q", field, resp.Warnings[0])
		}
	}
	if strings.Contains(resp.Warnings[0], "metadata") {
		t.Errorf("the delegate has metadata of its own, and the warning is %q", resp.Warnings[0])
	}
	many := strings.Replace(plain, `"new": {"a": 1.0}`,
		`"n1":1,"n2":1,"n3":1,"n4":1,"n5":1,"n6":1,"n7":1,"n8":1,"n9":1`, 1)
	if resp := respond(t, create(many)); len(resp.Warnings) != 1 || strings.Contains(resp.Warnings[0], "spec.n9") {
		t.Errorf("warnings %q", resp.Warnings)
	}
}

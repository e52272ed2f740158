package attempts

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const page = "../../../docs/attempts.md"

var update = flag.Bool("update", false, "write docs/attempts.md")

// answered says what an answer of the API server means. Logs and exec of pods that do not run are errors, but not
// refusals.
func answered(a attempt, code int, answer string) string {
	const (
		denied = "ValidatingAdmissionPolicy 'multicluster-scheduler-source"
		called = `admission webhook \"endpointslices.multicluster.admiralty.io\" denied the request`
	)
	streams := strings.Contains(a.request.path, "/log") || strings.Contains(a.request.path, "/exec")
	by := func(text string) bool { return strings.Contains(answer, text) && strings.Contains(answer, a.says) }
	switch {
	case code < http.StatusMultipleChoices, streams && code == http.StatusBadRequest:
		return allowed
	case code != http.StatusForbidden:
		return fmt.Sprintf("answer %d: %s", code, answer)
	case a.want == both && by(denied):
		return both
	case by(denied + "-mark'"):
		return mark
	case by(denied + "-tokens'"):
		return capped
	case by(denied + "-leases'"):
		return onLeases
	case by(denied + "'"):
		return policy
	case by(called):
		return webhook
	case strings.Contains(answer, "cannot "):
		return rbac
	default:
		return "refused: " + answer
	}
}

// differences makes all attempts, and returns those with another answer than the table's.
func differences(ctx context.Context) ([]string, error) {
	var all []string
	for _, a := range table() {
		code, answer, err := do(ctx, a.who, a.where, a.request)
		if err != nil {
			return nil, err
		}
		if got := answered(a, code, answer); got != a.want {
			all = append(all, fmt.Sprintf("%s in %q: %s: %s, want %s", a.who, a.where, a.what, got, a.want))
		}
	}
	return all, nil
}

// expectTable waits until each attempt gets the answer of the table. API servers learn of rights by a watch.
func expectTable(t *testing.T) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		different, err := differences(ctx)
		if err == nil && len(different) > 0 {
			err = fmt.Errorf("%d of %d attempts:\n%s", len(different), len(table()), strings.Join(different, "\n"))
		}
		return err
	})
}

func TestAttempts(t *testing.T) {
	if n := len(table()); n < 60 {
		t.Errorf("the table has %d attempts only", n)
	}
	expectTable(t)
}

// TestPolicyOnAuditFailsTheTable has bindings of the policies that only record denials. Each attempt that a policy must
// refuse then differs.
func TestPolicyOnAuditFailsTheTable(t *testing.T) {
	for binding, answer := range map[string]string{
		"multicluster-scheduler-source": policy, "multicluster-scheduler-source-mark": mark,
		"multicluster-scheduler-source-tokens": capped, "multicluster-scheduler-source-leases": onLeases,
	} {
		t.Run(binding, func(t *testing.T) {
			expectTable(t)
			defer act(t, binding, admissionv1.Deny)
			act(t, binding, admissionv1.Audit)
			want := 0
			for _, a := range table() {
				if a.want == answer {
					want++
				}
			}
			expectDifferences(t, func(n int) bool { return n == want })
		})
	}
	expectTable(t)
}

// TestWithoutTheWebhookTheTableFails takes the webhook's configuration away for a while.
func TestWithoutTheWebhookTheTableFails(t *testing.T) {
	expectTable(t)
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: env.Release}}
	configuration = env.Get(t, world.target, configuration)
	env.Delete(t, world.target, configuration)
	defer func() {
		configuration.ResourceVersion, configuration.UID = "", ""
		env.Ensure(t, world.target, configuration)
		expectTable(t)
	}()
	want := 0
	for _, a := range table() {
		if a.want == webhook {
			want++
		}
	}
	expectDifferences(t, func(n int) bool { return n == want })
}

func act(t *testing.T, binding string, action admissionv1.ValidationAction) {
	t.Helper()
	env.Change(t, world.target,
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: binding}},
		func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{action}
		})
}

// TestARoleOneVerbWiderFailsTheTable adds one right to the role of sources.
func TestARoleOneVerbWiderFailsTheTable(t *testing.T) {
	for _, rule := range []rbacv1.PolicyRule{
		env.Rule("", []string{"secrets"}, "get"),
		env.Rule("", []string{"secrets"}, "list"),
		env.Rule("", []string{"secrets"}, "watch"),
		env.Rule("", []string{"secrets"}, "patch"),
		env.Rule("", []string{"secrets"}, "deletecollection"),
		env.Rule("", []string{"configmaps"}, "get"),
		env.Rule("", []string{"pods"}, "create"),
		env.Rule("", []string{"pods"}, "delete"),
		env.Rule("", []string{"pods/eviction"}, "create"),
		env.Rule("", []string{"pods/attach"}, "create"),
		env.Rule("", []string{"pods/portforward"}, "create"),
		env.Rule("", []string{"pods/ephemeralcontainers"}, "patch"),
		env.Rule("", []string{"serviceaccounts/token"}, "create"),
		env.Rule("multicluster.admiralty.io", []string{"podchaperons"}, "update"),
		env.Rule("multicluster.admiralty.io", []string{"podchaperons"}, "deletecollection"),
		env.Rule("multicluster.admiralty.io", []string{"podchaperons/status"}, "patch"),
		env.Rule("multicluster.admiralty.io", []string{"sources"}, "create"),
	} {
		t.Run(rule.Verbs[0]+" "+rule.Resources[0], func(t *testing.T) {
			expectTable(t)
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: env.SourceRole}}
			rules := env.Get(t, world.target, role).Rules
			change := func(rules []rbacv1.PolicyRule) {
				env.Change(t, world.target, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
			}
			defer change(rules)
			change(append(slices.Clone(rules), rule))
			expectDifferences(t, func(n int) bool { return n > 0 })
		})
	}
	expectTable(t)
}

// expectDifferences waits until as many attempts differ.
func expectDifferences(t *testing.T, enough func(int) bool) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		different, err := differences(ctx)
		if err == nil && !enough(len(different)) {
			err = fmt.Errorf("%d attempts differ:\n%s", len(different), strings.Join(different, "\n"))
		}
		return err
	})
}

func TestThePageHasTheTable(t *testing.T) {
	want := render()
	if *update {
		env.Must(t, os.WriteFile(page, []byte(want), 0o644))
	}
	got, err := os.ReadFile(page)
	env.Must(t, err)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/attempts.md differs: run go test ./test/integration/attempts -update (-want +got):\n%s", diff)
	}
}

// render returns the page.
func render() string {
	var b strings.Builder
	b.WriteString(preface)
	who := ""
	for _, a := range table() {
		if a.who != who {
			who = a.who
			fmt.Fprintf(&b, "\n## %s\n\n| in | attempt | answer | the answer says |\n|---|---|---|---|\n", who)
		}
		where, says := a.where, a.says
		if where == "" {
			where = "–"
		}
		if says != "" {
			says = "… " + says + " …"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", where, a.what, a.want, says)
	}
	return b.String()
}

const preface = `# Attempts

A test makes these attempts on a real API server, with real identities and the chart's roles, policies and webhook, and
compares the answers: ` + "`test/integration/attempts`" + `. It also writes this page. With a policy on Audit, without
the webhook, or with one more verb in the role of sources, other tests show that answers differ. For the reasons, see
[Security](security.md).

| namespace | who may use it |
|---|---|
| shop | c1, c2, c0; c3 and the tenant |
| left | c2; c1 leaves it, and still has a ConfigMap there |
| other | c2 |
| kube-system, admiralty (the release's) | no source, because nobody named them |

An object *of the target* has no marks. The object names say whose the others are. c2 is a second source of the same
kind. ClusterSource c0 has no ` + "`spec.clusterID`" + `, as after an upgrade.
`

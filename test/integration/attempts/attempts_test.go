package attempts

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const page = "../../../docs/attempts.md"

var update = flag.Bool("update", false, "write docs/attempts.md")

// expectTable waits until each attempt gets the answer of the table. API servers learn of rights by a watch.
func expectTable(t *testing.T) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		different, err := world.Differences(ctx, attempts.Table())
		if err == nil && len(different) > 0 {
			err = fmt.Errorf("%d of %d attempts:\n%s",
				len(different), len(attempts.Table()), strings.Join(different, "\n"))
		}
		return err
	})
}

func TestAttempts(t *testing.T) {
	if n := len(attempts.Table()); n < 60 {
		t.Errorf("the table has %d attempts only", n)
	}
	expectTable(t)
}

// TestPolicyOnAuditFailsTheTable has bindings of the policies that only record denials. Each attempt that a policy must
// refuse then differs.
func TestPolicyOnAuditFailsTheTable(t *testing.T) {
	for binding, answer := range map[string]string{
		"multicluster-scheduler-source":        attempts.Policy,
		"multicluster-scheduler-source-mark":   attempts.Mark,
		"multicluster-scheduler-source-tokens": attempts.Capped,
		"multicluster-scheduler-source-leases": attempts.OnLeases,
	} {
		t.Run(binding, func(t *testing.T) {
			expectTable(t)
			defer act(t, binding, admissionv1.Deny)
			act(t, binding, admissionv1.Audit)
			want := 0
			for _, a := range attempts.Table() {
				if a.Want == answer {
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
	configuration = env.Get(t, target, configuration)
	env.Delete(t, target, configuration)
	defer func() {
		configuration.ResourceVersion, configuration.UID = "", ""
		env.Ensure(t, target, configuration)
		expectTable(t)
	}()
	want := 0
	for _, a := range attempts.Table() {
		if a.Want == attempts.Webhook {
			want++
		}
	}
	expectDifferences(t, func(n int) bool { return n == want })
}

func act(t *testing.T, binding string, action admissionv1.ValidationAction) {
	t.Helper()
	env.Change(t, target,
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
		env.Rule("", []string{"pods/ephemeralcontainers"}, "patch"),
		env.Rule("metrics.k8s.io", []string{"pods"}, "get"),
		env.Rule("", []string{"serviceaccounts/token"}, "create"),
		env.Rule("multicluster.admiralty.io", []string{"podchaperons"}, "update"),
		env.Rule("multicluster.admiralty.io", []string{"podchaperons"}, "deletecollection"),
		env.Rule("multicluster.admiralty.io", []string{"podchaperons/status"}, "patch"),
		env.Rule("multicluster.admiralty.io", []string{"sources"}, "create"),
	} {
		t.Run(rule.Verbs[0]+" "+rule.Resources[0], func(t *testing.T) {
			expectTable(t)
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: env.SourceRole}}
			rules := env.Get(t, target, role).Rules
			change := func(rules []rbacv1.PolicyRule) {
				env.Change(t, target, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
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
		different, err := world.Differences(ctx, attempts.Table())
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
	for _, a := range attempts.Table() {
		if a.Who != who {
			who = a.Who
			fmt.Fprintf(&b, "\n## %s\n\n| in | attempt | answer | the answer says |\n|---|---|---|---|\n", who)
		}
		where, says := a.Where, a.Says
		if where == "" {
			where = "–"
		}
		if says != "" {
			says = "… " + says + " …"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", where, a.What, a.Want, says)
	}
	return b.String()
}

const preface = `# Attempts

A test makes these attempts on a real API server, with real identities and the chart's roles, policies and webhook, and
compares the answers: ` + "`test/integration/attempts`" + `. It also writes this page. With a policy on Audit, without
the webhook, or with one more verb in the role of sources, other tests show that answers differ. ` + "`test/e2e`" + `
makes the same attempts on a real cluster with the chart installed, and with tokens that
` + "`kubectl multicluster connect`" + ` made. For the reasons, see [Security](security.md).

| namespace | who may use it |
|---|---|
| shop | c1, c2, c0; c3 and the tenant |
| left | c2; c1 leaves it, and still has a ConfigMap there |
| other | c2 |
| kube-system, admiralty (the release's) | no source, because nobody named them |

An object *of the target* has no marks. The object names say whose the others are. c2 is a second source of the same
kind. ClusterSource c0 has no ` + "`spec.clusterID`" + `, as after an upgrade.
`

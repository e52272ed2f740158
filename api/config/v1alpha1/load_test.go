package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const head = "apiVersion: config.multicluster.admiralty.io/v1alpha1\nkind: Configuration\nwebhook: {certDir: /certs}\n"

func TestLoadSetsDefaults(t *testing.T) {
	got, err := Load([]byte(head + "clusterName: c1\nplacement: {strategy: pack, keepLabels: true,\n" +
		"  annotationsFromTargets: [Example.com/*, a]}\n" +
		"capacity: {excludedLabelsRegexp: ^secret/}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.ClusterName = "c1"
	want.Webhook.CertDir = "/certs"
	want.Placement.Strategy, want.Placement.KeepLabels = Pack, true
	want.Placement.AnnotationsFromTargets = []string{"Example.com/*", "a"}
	want.Capacity.ExcludedLabelsRegexp = "^secret/"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
	if got.Placement.Timeout.Duration != time.Minute || !*got.LeaderElection.Enabled {
		t.Errorf("defaults: got timeout %s, leader election %t", got.Placement.Timeout.Duration,
			*got.LeaderElection.Enabled)
	}
}

func TestLoadNamesTheWrongField(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"a misspelt field":        {head + "clustername: c1\n", `unknown field "clustername"`},
		"a misspelt nested field": {head + "placement: {strategie: pack}\n", `unknown field "placement.strategie"`},
		"another version": {
			"apiVersion: config.multicluster.admiralty.io/v2\nkind: Configuration\n", "this build reads apiVersion",
		},
		"an unknown strategy": {
			head + "placement: {strategy: random}\n", `supported values: "spread", "pack"`,
		},
		"no key of an annotation": {
			head + "placement: {annotationsFromTargets: [a, b c]}\n", "placement.annotationsFromTargets[1]: Invalid",
		},
		"a domain of nothing": {
			head + "placement: {annotationsFromTargets: [/*]}\n", "placement.annotationsFromTargets[0]: Invalid",
		},
		"an annotation of ours": {
			head + "placement: {annotationsFromTargets: [multicluster.admiralty.io/*]}\n",
			"placement.annotationsFromTargets[0]: Forbidden",
		},
		"too many annotations": {
			head + "placement: {annotationsFromTargets: [a" + strings.Repeat(",a", maxAnnotations) + "]}\n",
			"must have at most 32 items",
		},
		"a time-out that is too short": {head + "placement: {timeout: 1ms}\n", "placement.timeout"},
		"a port out of range":          {head + "kubeletAPI: {port: 99999}\n", "kubeletAPI.port"},
		"a name that is no label":      {head + "clusterName: 'a b'\n", "clusterName"},
		"no certificate": {
			strings.Replace(head, "certDir: /certs", "", 1), "set certDir or selfManaged",
		},
		"two certificates": {
			strings.Replace(head, "certDir", "selfManaged: {secretName: a, serviceName: b, "+
				"webhookConfigurationName: c}, certDir", 1),
			"only one of certDir and selfManaged",
		},
		"a certificate without a webhook configuration": {
			strings.Replace(head, "certDir: /certs", "selfManaged: {secretName: a, serviceName: b}", 1),
			"webhook.selfManaged.webhookConfigurationName",
		},
		"no role": {
			head + "roles: {source: false, target: false}\n", "set source or target to true",
		},
		"something that is not YAML": {"\t", "decoding the configuration"},
		"an invalid regular expression": {
			head + "capacity: {excludedLabelsRegexp: '(secret'}\n",
			"must be a regular expression (RE2): error parsing regexp: missing closing )",
		},
		"a duration without its unit": {head + "placement: {timeout: '60'}\n", "missing unit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(test.config))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Load: got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestATargetNeedsACertificateForItsWebhook(t *testing.T) {
	config := strings.Replace(head, "webhook: {certDir: /certs}", "roles: {source: false}", 1)
	if _, err := Load([]byte(config)); err == nil {
		t.Error("a target needs no certificate")
	}
}

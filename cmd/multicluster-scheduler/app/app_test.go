package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandRefusesWrongArguments(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	misspelt := "apiVersion: config.multicluster.admiralty.io/v1alpha1\nkind: Configuration\nclustername: c1\n"
	if err := os.WriteFile(config, []byte(misspelt), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no configuration file": {nil, `required flag(s) "config" not set`},
		"a missing file":        {[]string{"--config", config + "x"}, "reading the configuration file"},
		"a misspelt field":      {[]string{"--config", config}, `unknown field "clustername"`},
		"a misspelt flag":       {[]string{"--confg", config}, "unknown flag: --confg"},
		"an unknown log level": {
			[]string{"--config", config, "--log-level", "loud"},
			`--log-level "loud": use error, info, debug, or a number`,
		},
		"an unknown log format": {
			[]string{"--config", config, "--log-format", "xml"}, `--log-format "xml": use json or console`,
		},
		"an argument without a flag": {[]string{config}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := New()
			out := &bytes.Buffer{}
			cmd.SetOut(out)
			cmd.SetErr(out)
			cmd.SetArgs(test.args)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	cmd := New()
	out := &bytes.Buffer{}
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--version"})
	err := cmd.ExecuteContext(t.Context())
	if err != nil || !strings.HasPrefix(out.String(), "multicluster-scheduler version ") {
		t.Errorf("--version printed %q, %v", out.String(), err)
	}
}

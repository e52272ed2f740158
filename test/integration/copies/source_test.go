package copies

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// password is neither a label's value nor a time nor a number: it would stand in an error about one.
	password = "open sesame?>"

	json      = "application/json"
	jsonPatch = "application/json-patch+json"
	merge     = "application/merge-patch+json"
	strategic = "application/strategic-merge-patch+json"
	apply     = "application/apply-patch+yaml"

	secrets = "/api/v1/namespaces/NS/secrets"
	marks   = `"annotations":{"multicluster.admiralty.io/followed-by":"USER"},"labels":{"multicluster.admiralty.io/parent-cluster-id":"c1"}`
)

func TestASourceCannotReadOrTouchSecretsOfTheTarget(t *testing.T) {
	namespace := target.Namespace(t, nil)
	c1 := source(t, "c1", namespace)
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "db"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.org/hold"}}},
	} {
		secret.Namespace, secret.StringData = namespace, map[string]string{"password": password}
		must(t, target.Client.Create(t.Context(), secret))
	}
	for name, r := range map[string]request{
		"get":                            {verb: "GET", path: secrets + "/db"},
		"list":                           {verb: "GET", path: secrets},
		"list everywhere":                {verb: "GET", path: "/api/v1/secrets"},
		"list what has our label":        {verb: "GET", path: secrets + "?labelSelector=multicluster.admiralty.io/parent-cluster-id"},
		"watch":                          {verb: "GET", path: secrets + "?watch=true&timeoutSeconds=2"},
		"a merge patch":                  {"PATCH", secrets + "/db", merge, `{"metadata":{` + marks + `}}`},
		"a strategic merge patch":        {"PATCH", secrets + "/db", strategic, `{"metadata":{` + marks + `}}`},
		"an apply patch":                 {"PATCH", secrets + "/db?fieldManager=c1&force=true", apply, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db",` + marks + `}}`},
		"an empty JSON patch":            {"PATCH", secrets + "/db", jsonPatch, `[]`},
		"a patch that changes nothing":   {"PATCH", secrets + "/db", merge, `{}`},
		"a patch with an invalid result": {"PATCH", secrets + "/db", jsonPatch, `[{"op":"copy","from":"/data/password","path":"/type"}]`},
		"a patch that is none":           {"PATCH", secrets + "/db", jsonPatch, `[{"op":"copy","from":"/data/password","path":"/metadata/creationTimestamp"}]`},
		"a patch that guesses":           {"PATCH", secrets + "/db", jsonPatch, `[{"op":"test","path":"/data/password","value":"` + encoded() + `"}]`},
		"overwriting":                    {"PUT", secrets + "/db", json, `{"metadata":{"name":"db",` + marks + `}}`},
		"overwriting for a try":          {"PUT", secrets + "/db?dryRun=All", json, `{"metadata":{"name":"db",` + marks + `}}`},
		"overwriting it without marks":   {"PUT", secrets + "/db", json, `{"metadata":{"name":"db"}}`},
		"deleting":                       {verb: "DELETE", path: secrets + "/db"},
		"deleting what has finalizers":   {verb: "DELETE", path: secrets + "/held"},
		"deleting for a try":             {verb: "DELETE", path: secrets + "/held?dryRun=All"},
		"deleting all":                   {verb: "DELETE", path: secrets},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := c1.do(t.Context(), t, r, namespace)
			if code != http.StatusForbidden {
				t.Errorf("answer %d, want Forbidden: %s", code, answer)
			}
			if strings.Contains(answer, password) || strings.Contains(answer, encoded()) {
				t.Errorf("the answer tells what is in the Secret: %s", answer)
			}
		})
	}
	for _, name := range []string{"db", "held"} {
		secret := &corev1.Secret{}
		must(t, target.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret))
		if diff := cmp.Diff(map[string][]byte{"password": []byte(password)}, secret.Data); diff != "" || secret.DeletionTimestamp != nil {
			t.Errorf("Secret %q is to be deleted (%v) or has changed (-before +after):\n%s", name, secret.DeletionTimestamp, diff)
		}
	}
}

func encoded() string { return encode(password) }

func encode(value string) string { return base64.StdEncoding.EncodeToString([]byte(value)) }

package copies

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// password is no valid label, time or number, so that an error about one of these would quote it.
const password = "open sesame?>"

func TestASourceCannotReadOrTouchSecretsOfTheTarget(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	c1 := newSource(t, "c1", namespace)
	held := createSecret(t, namespace, &corev1.Secret{ObjectMeta: env.Meta(namespace, "held")}, "example.org/hold")
	db := createSecret(t, namespace, &corev1.Secret{ObjectMeta: env.Meta(namespace, "db")})
	const noData = `"data":{}`
	for name, r := range map[string]request{
		"get":                     get(secrets + "/db"),
		"list":                    get(secrets),
		"list in all namespaces":  get("/api/v1/secrets"),
		"list those with a label": get(secrets + "?labelSelector=multicluster.admiralty.io/parent-cluster-id"),
		"watch":                   get(secrets + "?watch=true&timeoutSeconds=2"),
		"merge patch":             patch(secrets+"/db", merge, `{"metadata":{`+marks+`}}`),
		"strategic merge patch":   patch(secrets+"/db", strategic, `{"metadata":{`+marks+`}}`),
		"apply": patch(secrets+"/db?fieldManager=c1&force=true", apply,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db",`+marks+`}}`),
		"patch with an empty JSON patch": patch(secrets+"/db", jsonPatch, `[]`),
		"patch without a change":         patch(secrets+"/db", merge, `{}`),
		"patch with an invalid result": patch(secrets+"/db", jsonPatch,
			`[{"op":"copy","from":"/data/password","path":"/type"}]`),
		"patch that copies the password to a time": patch(secrets+"/db", jsonPatch,
			`[{"op":"copy","from":"/data/password","path":"/metadata/creationTimestamp"}]`),
		"patch that guesses the password": patch(secrets+"/db", jsonPatch,
			`[{"op":"test","path":"/data/password","value":"`+encode(password)+`"}]`),
		"overwrite":                   replace(secrets, "db", marks, noData),
		"overwrite without marks":     replace(secrets, "db", `"labels":{}`, noData),
		"overwrite in a dry run":      {"PUT", secrets + "/db?dryRun=All", json, object("db", marks, noData)},
		"delete":                      remove(secrets + "/db"),
		"delete one with a finalizer": remove(secrets + "/held"),
		"delete in a dry run":         remove(secrets + "/held?dryRun=All"),
		"delete all of the namespace": remove(secrets),
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := c1.do(t.Context(), t, r, namespace)
			if code != http.StatusForbidden {
				t.Errorf("answer %d, want Forbidden: %s", code, answer)
			}
			if strings.Contains(answer, password) || strings.Contains(answer, encode(password)) {
				t.Errorf("the answer reveals the content of the Secret: %s", answer)
			}
		})
	}
	for _, secret := range []*corev1.Secret{db, held} {
		expectPassword(t, namespace, secret.Name, password)
		if env.Get(t, target, secret).DeletionTimestamp != nil {
			t.Errorf("Secret %q is to be deleted", secret.Name)
		}
	}
}

// createSecret creates a Secret of the target's users with the password.
func createSecret(t *testing.T, namespace string, secret *corev1.Secret, finalizers ...string) *corev1.Secret {
	t.Helper()
	secret.Namespace, secret.Finalizers = namespace, finalizers
	secret.Data = map[string][]byte{"password": []byte(password)}
	env.Create(t, target, secret)
	return secret
}

// expectPassword checks the content of a Secret.
func expectPassword(t *testing.T, namespace, name, want string) {
	t.Helper()
	secret := env.Get(t, target, &corev1.Secret{ObjectMeta: env.Meta(namespace, name)})
	env.ExpectEqual(t, "Secret "+name, map[string][]byte{"password": []byte(want)}, secret.Data)
}

func encode(value string) string { return base64.StdEncoding.EncodeToString([]byte(value)) }

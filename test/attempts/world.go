package attempts

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// World is a target cluster, with those who make attempts there. It is not safe for concurrent use.
type World struct {
	target     client.Client
	prefix     string
	addresses  Addresses
	identities map[string]identity
	ownerUID   types.UID
}

// Addresses are those to which endpoints must not lead, because the target uses them. One is of a delegate of c1.
type Addresses struct {
	Pod, PodNAT64, Delegate, Node, Bridge, Service, Server string
}

// identity is somebody who makes attempts.
type identity struct {
	user string
	host string
	http *http.Client
}

// NewWorld returns a World in a target. Its login has all rights. The prefix is of the names of the table's namespaces
// shop, left and other, which exist.
func NewWorld(target client.Client, login *rest.Config, prefix string, addresses Addresses) (*World, error) {
	w := &World{target: target, prefix: prefix, addresses: addresses, identities: map[string]identity{}}
	return w, w.Add(administrator, "admin", login)
}

// Namespace returns the name of a namespace of the table.
func (w *World) Namespace(name string) string {
	switch name {
	case Shop, Deselected, Other:
		return w.prefix + name
	default:
		return name
	}
}

// Add adds somebody: who it is in the table, and the user of the login.
func (w *World) Add(who, user string, login *rest.Config) error {
	c, err := rest.HTTPClientFor(login)
	if err != nil {
		return err
	}
	w.identities[who] = identity{user: user, host: strings.TrimSuffix(login.Host, "/"), http: c}
	return nil
}

// Differences makes attempts, and returns those that got other answers.
func (w *World) Differences(ctx context.Context, table []Attempt) ([]string, error) {
	var all []string
	for _, a := range table {
		code, answer, err := w.do(ctx, a.Who, a.Where, a.request)
		if err != nil {
			return nil, err
		}
		if got := answered(a, code, answer); got != a.Want {
			all = append(all, fmt.Sprintf("%s in %q: %s: %s, want %s", a.Who, a.Where, a.What, got, a.Want))
		}
	}
	return all, nil
}

// answered says what an answer of the API server means. Logs and exec of pods that do not run are errors, but not
// refusals, and so is the usage of pods in a cluster without metrics-server.
func answered(a Attempt, code int, answer string) string {
	const (
		denied = "ValidatingAdmissionPolicy 'multicluster-scheduler-source"
		called = `admission webhook \"endpointslices.multicluster.admiralty.io\" denied the request`
	)
	streams := slices.ContainsFunc([]string{"/log", "/exec", "/attach", "/portforward"}, func(part string) bool {
		return strings.Contains(a.request.path, part)
	})
	metered := strings.Contains(a.request.path, measured)
	by := func(text string) bool { return strings.Contains(answer, text) && strings.Contains(answer, a.Says) }
	switch {
	case code < http.StatusMultipleChoices, streams && code == http.StatusBadRequest,
		metered && code == http.StatusNotFound: // A cluster without metrics-server
		return allowed
	case code != http.StatusForbidden:
		return fmt.Sprintf("answer %d: %s", code, answer)
	case a.Want == both && by(denied):
		return both
	case by(denied + "-mark'"):
		return Mark
	case by(denied + "-tokens'"):
		return Capped
	case by(denied + "-leases'"):
		return OnLeases
	case by(denied + "'"):
		return Policy
	case by(called):
		return Webhook
	case strings.Contains(answer, "cannot "):
		return rbac
	default:
		return "refused: " + answer
	}
}

// do makes a request and returns the answer of the API server.
func (w *World) do(ctx context.Context, who, namespace string, r request) (code int, answer string, err error) {
	i, is := w.identities[who]
	if !is {
		return 0, "", fmt.Errorf("there is no %q", who)
	}
	words, err := w.words(ctx, i, namespace, r)
	if err != nil {
		return 0, "", err
	}
	address, content := i.host+words.Replace(r.path), strings.NewReader(words.Replace(r.body))
	req, err := http.NewRequestWithContext(ctx, r.verb, address, content)
	if err != nil {
		return 0, "", err
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.as != "" {
		req.Header.Set("Impersonate-User", r.as)
	}
	response, err := i.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// words replaces the placeholders of a request.
func (w *World) words(ctx context.Context, i identity, namespace string, r request) (*strings.Replacer, error) {
	words := []string{
		"NS", w.Namespace(namespace), ownerUID, string(w.ownerUID), podAddressNAT64, w.addresses.PodNAT64,
		podAddress, w.addresses.Pod, delegateAddress, w.addresses.Delegate, nodeAddress, w.addresses.Node,
		bridgeAddress, w.addresses.Bridge, serviceAddress, w.addresses.Service, serverAddress, w.addresses.Server,
	}
	for _, who := range []string{C1, C2, C3} {
		user := w.identities[who].user
		words = append(words, userOf+nameOf(who), user, accountOf+nameOf(who), user[strings.LastIndex(user, ":")+1:])
	}
	words = append(words, "USER", i.user)
	if strings.Contains(r.path+r.body, "LEASE") {
		key := client.ObjectKey{Namespace: leases, Name: translate.SourceGrantName(i.user)}
		lease := &coordinationv1.Lease{}
		if err := w.target.Get(ctx, key, lease); err != nil {
			return nil, fmt.Errorf("getting the Lease of %s: %w", i.user, err)
		}
		words = append(words, "LEASE", lease.Name, "VERSION", lease.ResourceVersion)
	}
	return strings.NewReplacer(words...), nil
}

// nameOf returns the short name of a source.
func nameOf(who string) string { return strings.TrimSuffix(strings.Fields(who)[1], ",") }

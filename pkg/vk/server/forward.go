package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

const (
	// answerTimeout bounds the wait for the beginning of the target's answer.
	answerTimeout = 30 * time.Second
	// maxErrorText bounds, in bytes, the text about a target that cannot be reached.
	maxErrorText = 256
	// tokenProtocol is the prefix with which browsers send a bearer token to API servers.
	tokenProtocol = "base64url.bearer.authorization.k8s.io." //nolint:gosec // a prefix, no token
)

var errNoAnswer = errors.New("no answer in time")

// destination is a delegate, with the query for it.
type destination struct {
	target         *engage.Target
	namespace, pod string
	query          url.Values
}

func (d destination) url(subresource string) (*url.URL, error) {
	base, _, err := rest.DefaultServerUrlFor(d.target.Config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of target %q: %w", d.target.Key, err)
	}
	base.Path = path.Join("/", base.Path, "api/v1/namespaces", d.namespace, "pods", d.pod, subresource)
	base.RawQuery = d.query.Encode()
	return base, nil
}

// follows says whether logs are followed: a quiet container may log at any time.
func (d destination) follows() bool {
	follow, err := strconv.ParseBool(d.query.Get("follow"))
	return follow && err == nil
}

// connect returns the URL of a subresource of the delegate, and the transport to the target.
func (d destination) connect(subresource string) (*url.URL, http.RoundTripper, error) {
	location, err := d.url(subresource)
	if err != nil {
		return nil, nil, err
	}
	transport, err := wire.HardenStreams(d.target.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to target %q: %w", d.target.Key, err)
	}
	return location, transport, nil
}

// forward forwards the request to the target, and the answer to the caller. It returns when both are complete.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, v *verb, d destination) {
	location, transport, err := d.connect(v.podSubresource)
	if err != nil {
		writeError(w, err)
		return
	}
	end, err := s.streams.Begin(d.target.Key)
	if err != nil {
		writeError(w, streamsError(d.target, err))
		return
	}
	defer end()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	limit := func() (end func() bool) {
		return s.options.Clock.AfterFunc(answerTimeout, func() { cancel(errNoAnswer) }).Stop
	}
	answered := func() bool { return false }
	if !d.follows() {
		answered = limit()
	}
	defer answered()
	caller := &upgrading{ResponseWriter: w}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host, p.Out.Header = location, "", forwarded(p.Out.Header)
		},
		Transport:     transport,
		FlushInterval: -1, // Flush at once.
		ModifyResponse: func(response *http.Response) error {
			answered()
			if s.join(ctx, caller, response) {
				return context.Cause(ctx)
			}
			return checkInTime(ctx, limit, response, v)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			writeError(w, targetError(r.Context(), d.target, err))
		},
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(s.options.Logger), slog.LevelDebug),
	}
	proxy.ServeHTTP(caller, r.WithContext(ctx))
}

// forwarded returns the headers for the target: the headers of streams, and no credentials of the caller.
func forwarded(header http.Header) http.Header {
	out := http.Header{}
	for _, key := range []string{
		"Accept", "Connection", "Upgrade", "X-Stream-Protocol-Version",
		"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions",
	} {
		if values := header.Values(key); len(values) > 0 {
			out[key] = values
		}
	}
	for _, value := range header.Values("Sec-Websocket-Protocol") {
		protocols := slices.DeleteFunc(strings.Split(value, ","), func(protocol string) bool {
			return strings.HasPrefix(strings.TrimSpace(protocol), tokenProtocol)
		})
		if len(protocols) > 0 {
			out.Add("Sec-Websocket-Protocol", strings.Join(protocols, ","))
		}
	}
	return out
}

// checkInTime checks an answer. The body of an error must arrive before the limit.
func checkInTime(ctx context.Context, limit func() func() bool, response *http.Response, v *verb) error {
	if response.StatusCode >= http.StatusBadRequest {
		end := limit()
		context.AfterFunc(ctx, func() { end() })
	}
	err := checkAnswer(response, v)
	// A connection that is being closed may deliver an answer, and may end its body as if it were complete.
	return errors.Join(context.Cause(ctx), err)
}

// checkAnswer converts errors for the caller. Their bodies are bounded.
func checkAnswer(response *http.Response, v *verb) error {
	if response.StatusCode < 400 || !v.plainErrors && response.StatusCode != http.StatusForbidden {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading its answer: %w", err)
	}
	var status metav1.Status
	switch err := json.Unmarshal(body, &status); {
	case err != nil || status.Message == "":
	case v.plainErrors:
		body = []byte(status.Message)
	case strings.Contains(status.Message, " cannot "): // RBAC refuses it, and no policy.
		status.Message += missingRight(v)
		if body, err = json.Marshal(status); err != nil {
			return fmt.Errorf("explaining its answer: %w", err)
		}
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	response.ContentLength = int64(len(body))
	response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	if v.plainErrors {
		response.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	return nil
}

// missingRight says how the source gets the right that it lacks in the target. Charts of earlier versions do not give
// all rights.
func missingRight(v *verb) string {
	return fmt.Sprintf("; in the cluster of the delegate, this source needs create and get on pods/%s: "+
		"upgrade the chart there, or add them to the role of the source", v.podSubresource)
}

// streamsError explains that a stream cannot begin now.
func streamsError(target *engage.Target, err error) error {
	return newError(http.StatusTooManyRequests,
		"No more streams of pods on node %q can be opened now: %v; end some of them, or try again later.",
		target.NodeName, err)
}

// targetError explains an error of the request to the target.
func targetError(ctx context.Context, target *engage.Target, err error) error {
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return newError(http.StatusGatewayTimeout,
			"The API server of the cluster behind node %q did not answer within %s; try again.",
			target.NodeName, answerTimeout)
	}
	return newError(http.StatusBadGateway, "The API server of the cluster behind node %q cannot be reached: %v.",
		target.NodeName, wire.Shorten(err.Error(), maxErrorText))
}

func writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if withCode := (*httpError)(nil); errors.As(err, &withCode) {
		code = withCode.code
	}
	http.Error(w, err.Error(), code)
}

package kubeletapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/flushwriter"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	// much is the number of bytes that a stream of the benchmark carries.
	much = 64 << 20
	// muchPort is a port of the container that sends much.
	muchPort = 9
	// lineLength is the number of bytes in a line of the log.
	lineLength = 128
)

// sendMuch sends as a container does: with the buffers of io.Copy.
func sendMuch(to io.Writer) error {
	buffer := make([]byte, 32<<10)
	for range much / len(buffer) {
		if _, err := to.Write(buffer); err != nil {
			return err
		}
	}
	return nil
}

// logMuch answers as a kubelet does: it flushes each line.
func logMuch(w http.ResponseWriter) {
	line := append(bytes.Repeat([]byte("a"), lineLength-1), '\n')
	flushed := flushwriter.Wrap(w)
	for range much / 4 / lineLength {
		if _, err := flushed.Write(line); err != nil {
			return
		}
	}
}

// way is a way to the container: by the kubelet API or directly.
type way struct {
	login *rest.Config
	urls  map[string]string
}

// ways returns both ways, with the URLs of each kind of stream.
func (api *kubeletAPI) ways() map[string]way {
	ours := "https://" + api.address
	pod := strings.TrimSuffix(target.Config.Host, "/") + "/api/v1/namespaces/" + api.namespace + "/pods/" +
		api.delegate.Name
	end := "/" + api.namespace + "/web/app?"
	return map[string]way{
		"virtual node": {api.caller(source.Config), map[string]string{
			"exec, output": ours + "/exec" + end + "command=much&output=1",
			"exec, input":  ours + "/exec" + end + "command=sink&input=1&error=1",
			"attach":       ours + "/attach" + end + "input=1&output=1&error=1",
			"ports":        ours + "/portForward/" + api.namespace + "/web",
			"log":          ours + "/containerLogs" + end + "limitBytes=1",
		}},
		"directly": {target.Config, map[string]string{
			"exec, output": pod + "/exec?container=app&command=much&stdout=true",
			"exec, input":  pod + "/exec?container=app&command=sink&stdin=true&stderr=true",
			"attach":       pod + "/attach?container=app&stdin=true&stdout=true&stderr=true",
			"ports":        pod + "/portforward",
			"log":          pod + "/log?container=app&limitBytes=1",
		}},
	}
}

// carry carries much, and returns how much.
func (w way) carry(b *testing.B, kind string) int64 {
	b.Helper()
	location, err := url.Parse(w.urls[kind])
	env.Must(b, err)
	switch kind {
	case "log":
		return w.get(b, location)
	case "ports":
		return w.receive(b, location)
	}
	executor, err := remotecommand.NewSPDYExecutor(w.login, http.MethodPost, location)
	env.Must(b, err)
	out := &count{}
	streams := remotecommand.StreamOptions{}
	if kind != "exec, input" {
		streams.Stdout = out
	}
	if kind != "exec, output" {
		streams.Stdin, streams.Stderr = io.LimitReader(zeros{}, much), io.Discard
	}
	env.Must(b, executor.StreamWithContext(b.Context(), streams))
	if kind == "exec, input" {
		return much
	}
	return out.bytes
}

// get reads a log as kubectl does.
func (w way) get(b *testing.B, location *url.URL) int64 {
	b.Helper()
	client, err := rest.HTTPClientFor(w.login)
	env.Must(b, err)
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, location.String(), nil)
	env.Must(b, err)
	answer, err := client.Do(request)
	env.Must(b, err)
	n, err := io.Copy(io.Discard, answer.Body)
	env.Must(b, err)
	env.Must(b, answer.Body.Close())
	return n
}

// receive receives what a port sends.
func (w way) receive(b *testing.B, location *url.URL) int64 {
	b.Helper()
	dialer, err := spdyDialer(w.login, location)
	env.Must(b, err)
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	env.Must(b, err)
	defer func() { _ = connection.Close() }()
	headers := http.Header{}
	headers.Set(corev1.PortHeader, fmt.Sprint(muchPort))
	headers.Set(corev1.PortForwardRequestIDHeader, "1")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	env.Must(b, err)
	env.Must(b, failures.Close())
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	env.Must(b, err)
	n, err := io.Copy(io.Discard, data)
	env.Must(b, err)
	return n
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// count counts what is written.
type count struct{ bytes int64 }

func (c *count) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// BenchmarkStreams compares the manager, with a target and a kubelet behind it, with this target alone.
func BenchmarkStreams(b *testing.B) {
	api := start(b, "")
	admin := api.caller(source.Config)
	waitForCode(b, admin, "/containerLogs/"+api.namespace+"/web/app", http.StatusOK)
	ways := api.ways()
	for _, kind := range []string{"exec, output", "exec, input", "attach", "ports", "log"} {
		for _, name := range []string{"virtual node", "directly"} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				for b.Loop() {
					b.SetBytes(ways[name].carry(b, kind))
				}
			})
		}
	}
}

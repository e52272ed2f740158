package kubeletapi

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // The types of client-go.
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestAttachReachesTheDelegate(t *testing.T) {
	api := start(t, "")
	admin := api.caller(source.Config)
	waitForCode(t, admin, "/containerLogs/"+api.namespace+"/web/app", http.StatusOK)
	location, err := url.Parse(admin.Host + "/attach/" + api.namespace + "/web/app?input=1&output=1&error=1")
	env.Must(t, err)
	for name, newExecutor := range map[string]func() (remotecommand.Executor, error){
		"attach over SPDY": func() (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(admin, http.MethodPost, location)
		},
		"attach over WebSocket": func() (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(admin, http.MethodGet, location.String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			executor, err := newExecutor()
			env.Must(t, err)
			var out, errs bytes.Buffer
			streams := remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs}
			env.Must(t, executor.StreamWithContext(t.Context(), streams))
			env.ExpectEqual(t, "output of the program", "hello", out.String())
			env.ExpectEqual(t, "the container", api.delegate.Name+" app", errs.String())
		})
	}
}

func TestForwardedPortsReachTheDelegate(t *testing.T) {
	api := start(t, "")
	admin := api.caller(source.Config)
	waitForCode(t, admin, "/containerLogs/"+api.namespace+"/web/app", http.StatusOK)
	location, err := url.Parse(admin.Host + "/portForward/" + api.namespace + "/web")
	env.Must(t, err)
	for name, newDialer := range map[string]func() (httpstream.Dialer, error){
		"SPDY": func() (httpstream.Dialer, error) { return spdyDialer(admin, location) },
		"SPDY over WebSocket": func() (httpstream.Dialer, error) {
			return portforward.NewSPDYOverWebsocketDialer(location, admin)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dialer, err := newDialer()
			env.Must(t, err)
			stop, ready := make(chan struct{}), make(chan struct{})
			forwarder, err := portforward.New(dialer, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
			env.Must(t, err)
			done := make(chan error, 1)
			go func() { done <- forwarder.ForwardPorts() }()
			<-ready
			for range 2 { // Several connections take the same way.
				expectEcho(t, forwarder, api.delegate.Name)
			}
			close(stop)
			env.Must(t, <-done)
		})
	}
}

func spdyDialer(config *rest.Config, location *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, location), nil
}

// expectEcho connects to the forwarded port, and ends its half of the connection before the answer.
func expectEcho(t *testing.T, forwarder *portforward.PortForwarder, delegate string) {
	t.Helper()
	ports, err := forwarder.GetPorts()
	env.Must(t, err)
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	env.Must(t, err)
	defer func() { _ = connection.Close() }()
	_, err = io.WriteString(connection, "hello")
	env.Must(t, err)
	env.Must(t, connection.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(connection)
	env.Must(t, err)
	env.ExpectEqual(t, "the answer of the port", delegate+" 8080 hello", string(got))
}

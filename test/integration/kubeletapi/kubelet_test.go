package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// echo is a container whose one program copies its input to its output, and prints its arguments to standard error.
type echo struct{}

// ExecInContainer runs the program.
//
//nolint:revive // The interface has these parameters.
func (echo) ExecInContainer(
	_ context.Context, pod, _, container string, command []string, in io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if command[0] == "much" {
		return sendMuch(out)
	}
	fmt.Fprint(errs, pod, " ", container, " ", command)
	if command[0] == "sink" {
		_, err := io.Copy(io.Discard, in)
		return err
	}
	_, err := io.Copy(out, in)
	return err
}

// AttachContainer attaches to the program.
//
//nolint:revive // The interface has these parameters.
func (echo) AttachContainer(
	_ context.Context, pod, _, container string, in io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize,
) error {
	fmt.Fprint(errs, pod, " ", container)
	_, err := io.Copy(out, in)
	return err
}

// PortForward answers with the port, and then with what it gets.
func (echo) PortForward(_ context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	if port == muchPort {
		return errors.Join(sendMuch(stream), stream.Close())
	}
	fmt.Fprint(stream, pod, " ", port, " ")
	_, err := io.Copy(stream, stream)
	return errors.Join(err, stream.Close())
}

// startKubelet starts a kubelet that knows every pod, and creates its node in the target. The log of a container is
// the query.
func startKubelet(t testing.TB) (nodeName string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("previous") {
			http.Error(w, "previous terminated container not found", http.StatusBadRequest)
			return
		}
		if r.URL.Query().Has("limitBytes") {
			logMuch(w)
			return
		}
		tail := r.URL.Query().Get("tailLines")
		fmt.Fprintf(w, "%s/%s tailLines=%s", r.PathValue("pod"), r.PathValue("container"), tail)
	})
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, echo{}, r.PathValue("pod"), "", r.PathValue("container"),
			r.URL.Query()["command"], options, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeAttach(w, r, echo{}, r.PathValue("pod"), "", r.PathValue("container"),
			options, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, echo{}, r.PathValue("pod"), "", options, time.Minute, time.Minute,
			portforward.SupportedProtocols)
	})
	kubelet := httptest.NewTLSServer(mux)
	t.Cleanup(kubelet.Close)
	host, portText, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	env.Must(t, err)
	port, err := strconv.ParseInt(portText, 10, 32)
	env.Must(t, err)
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	env.Create(t, target, node)
	env.ChangeStatus(t, target, node, func(node *corev1.Node) {
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	})
	return name
}

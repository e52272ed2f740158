package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/usage"
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 10 * time.Second // for reading a proxy from the API server
	idleTimeout       = 2 * time.Minute
)

// Options of New. All are required except CertificateSignerName, Explain, Usage and Leads.
type Options struct {
	// Port is the port of the kubelet in the status of the virtual nodes.
	Port int
	// PodIP is the address of the virtual nodes while this replica leads. The certificate is for this address.
	PodIP net.IP
	// Registry has the targets.
	Registry *engage.Registry
	// Reader reads pods of the source cluster.
	Reader client.Reader
	// Client reviews tokens and access in the source cluster, reads the client CA and requests certificates there.
	Client kubernetes.Interface
	// Explain returns the scheduler's explanation of a pod, if there is one.
	Explain func(pod types.NamespacedName) (diagnosis.Explanation, bool)
	// Usage measures the pods of virtual nodes.
	Usage *usage.Meter
	// Leads is closed when this replica leads. Only then has it a cache of pods for Usage.
	Leads <-chan struct{}
	// CertificateSignerName is the signer of the serving certificate. If it is empty, the server signs the certificate.
	CertificateSignerName string
	// Clock measures the validity of certificates and the wait for a target's answer.
	Clock clock.WithDelayedExecution
	// Logger is for all that is not about one request, and the parent of the loggers of requests.
	Logger logr.Logger
}

// Server is the kubelet API. It is a manager.Runnable, and runs on every replica.
type Server struct {
	options Options
	access  *access
	streams wire.Streams
}

// New returns a Server, which does not listen before Start.
func New(options Options) (*Server, error) {
	access, err := newAccess(options.Client)
	if err != nil {
		return nil, err
	}
	return &Server{options: options, access: access}, nil
}

// NeedLeaderElection returns false, because a virtual node may still have the address of the previous leader.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends. Requests end with it.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(s.options.Port)))
	if err != nil {
		return fmt.Errorf("listening for API servers: %w", err)
	}
	certificate, err := s.certificates(ctx)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	go s.access.clientCA.Run(ctx, 1)
	server := &http.Server{
		Handler: s.routes(),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			ClientAuth:     tls.RequestClientCert, // The authenticator verifies the certificate.
			GetCertificate: certificate,
			NextProtos:     []string{"http/1.1"}, // Upgrades need HTTP/1.1.
		},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.options.Logger), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() {
		if err := server.Close(); err != nil {
			s.options.Logger.Error(err, "Closing the kubelet API failed")
		}
	})()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	return nil
}

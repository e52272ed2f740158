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
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 10 * time.Second // of a proxy, from the API server
	idleTimeout       = 2 * time.Minute
)

// Options are what a Server works with. All but CertificateSignerName and Explain are required.
type Options struct {
	// Port is the one that the virtual nodes give as their kubelet's.
	Port int
	// PodIP is the address that the virtual nodes give as theirs while this replica leads; the certificate is for it.
	PodIP net.IP
	// Registry has the targets to forward to.
	Registry *engage.Registry
	// Reader reads pods of the source cluster.
	Reader client.Reader
	// Client reviews tokens and access in the source cluster, reads its client CA and requests certificates.
	Client kubernetes.Interface
	// Explain says what the scheduler knows of a pod, if it knows anything.
	Explain func(pod types.NamespacedName) (diagnosis.Explanation, bool)
	// CertificateSignerName, if not empty, is the signer of the serving certificate.
	CertificateSignerName string
	// Clock tells when a certificate expires and how long a target takes to answer.
	Clock clock.WithDelayedExecution
	// Logger gets what happens outside of requests.
	Logger logr.Logger
}

// Server is the kubelet API. It is a manager.Runnable of every replica.
type Server struct {
	Options

	access *access
}

// New makes a Server that listens once it is started.
func New(options Options) (*Server, error) {
	access, err := newAccess(options.Client)
	if err != nil {
		return nil, err
	}
	return &Server{Options: options, access: access}, nil
}

// NeedLeaderElection is false: a virtual node may still name the replica that led before.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends, and with it every request that is under way.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(s.Port)))
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
			ClientAuth:     tls.RequestClientCert, // The authenticator verifies it.
			GetCertificate: certificate,
			NextProtos:     []string{"http/1.1"}, // Upgrades need it.
		},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.Logger), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() {
		if err := server.Close(); err != nil {
			s.Logger.Error(err, "Closing the kubelet API failed")
		}
	})()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	return nil
}

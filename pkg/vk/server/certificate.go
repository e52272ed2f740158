package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
	"k8s.io/utils/clock"
)

const (
	validity     = 365 * 24 * time.Hour
	renewBefore  = validity / 4
	clockSkew    = 5 * time.Minute
	commonName   = "system:node:admiralty"
	organization = "system:nodes"
)

type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// certificates returns the function for tls.Config.GetCertificate. If there is a signer, it requests certificates from
// the signer until ctx ends.
func (s *Server) certificates(ctx context.Context) (getCertificate, error) {
	own := &selfSigned{clock: s.options.Clock, ip: s.options.PodIP}
	if s.options.CertificateSignerName == "" {
		return own.certificate, nil
	}
	manager, err := certificate.NewManager(&certificate.Config{
		Name:             "kubelet-api",
		Ctx:              &ctx,
		ClientsetFn:      func(*tls.Certificate) (kubernetes.Interface, error) { return s.options.Client, nil },
		SignerName:       s.options.CertificateSignerName,
		Template:         &x509.CertificateRequest{Subject: subject(), IPAddresses: []net.IP{s.options.PodIP}},
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: &memory{},
	})
	if err != nil {
		return nil, fmt.Errorf("requesting certificates of signer %q: %w", s.options.CertificateSignerName, err)
	}
	manager.Start()
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if current := manager.Current(); current != nil {
			return current, nil
		}
		return own.certificate(hello)
	}, nil
}

func subject() pkix.Name {
	return pkix.Name{CommonName: commonName, Organization: []string{organization}}
}

// selfSigned makes a certificate on first use, and a new one long before it expires.
type selfSigned struct {
	clock clock.PassiveClock
	ip    net.IP

	mu      sync.Mutex // guards current
	current *tls.Certificate
}

func (s *selfSigned) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.current != nil && now.Before(s.current.Leaf.NotAfter.Add(-renewBefore)) {
		return s.current, nil
	}
	made, err := selfSign(s.ip, now)
	if err != nil {
		return nil, err
	}
	s.current = made
	return made, nil
}

func selfSign(ip net.IP, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generating a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject(),
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IPAddresses:           []net.IP{ip},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the serving certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// memory is a certificate.Store that keeps the signed certificate in memory.
type memory struct {
	mu      sync.Mutex // guards current
	current *tls.Certificate
}

// Current returns the stored certificate.
func (m *memory) Current() (*tls.Certificate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil {
		none := certificate.NoCertKeyError("no certificate has been signed yet")
		return nil, &none
	}
	return m.current, nil
}

// Update stores a certificate.
func (m *memory) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the signed certificate: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = &pair
	return &pair, nil
}

package manager

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
)

// webhookServer is one that serves the certificate of a directory, on a port that is free.
func webhookServer(t *testing.T, dir string) webhook.Server {
	t.Helper()
	return webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: porttest.Free(t), CertDir: dir, TLSOpts: []func(*tls.Config){fromFiles{}.configure},
	})
}

// issue writes a certificate for the webhook's Service into a directory, and returns it as its own authority.
func issue(t *testing.T, dir string) (authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"webhook.admiralty.svc"},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: certificate},
		"tls.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

func TestWithoutACertificateInTheDirectoryTheWebhookIsNotReadyAndSaysSo(t *testing.T) {
	server := webhookServer(t, t.TempDir())
	if err := server.Start(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server ended with %v, want that the file does not exist", err)
	}
	if server.StartedChecker()(nil) == nil {
		t.Error("a server without a certificate says that it has started")
	}
}

func TestWithACertificateInTheDirectoryTheWebhookIsReady(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir)
	serve(t, webhookServer(t, dir))()
}

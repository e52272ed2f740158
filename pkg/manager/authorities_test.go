package manager

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// TestPublicCertificatesAreTrusted runs itself as a process without the authorities of this machine, as in the image.
func TestPublicCertificatesAreTrusted(t *testing.T) {
	const inImage = "TEST_IN_IMAGE"
	if os.Getenv(inImage) == "" {
		none := filepath.Join(t.TempDir(), "none")
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), inImage+"=true", "SSL_CERT_FILE="+none, "SSL_CERT_DIR="+none)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, output)
		}
		return
	}
	for public := range bundle.Roots() {
		authority, err := x509.ParseCertificate(public.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		everything := x509.VerifyOptions{
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, CurrentTime: authority.NotBefore,
		}
		if _, err := authority.Verify(everything); err != nil {
			t.Errorf("authority %q: %v", authority.Subject, err)
		}
	}
}

package pki

import (
	"crypto/x509"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func store(t *testing.T) Store {
	t.Helper()
	s := Store{Dir: t.TempDir(), Now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	if err := s.Authority("ca"); err != nil {
		t.Fatal(err)
	}
	return s
}

func certificate(t *testing.T, s Store, name string) *x509.Certificate {
	t.Helper()
	cert, _, err := s.load(name)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(t *testing.T, s Store, name string, usage x509.ExtKeyUsage) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, s, "ca"))
	_, err := certificate(t, s, name).Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: s.Now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	return err
}

func TestServerCertificateIsTrustedForItsNames(t *testing.T) {
	s := store(t)
	address := netip.MustParseAddr("10.200.0.11")
	subject := Subject{
		User: "kube-apiserver", Names: []string{"kubernetes.default.svc"}, Addresses: []netip.Addr{address},
	}
	if err := s.Issue("ca", "server", subject); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, s, "server", x509.ExtKeyUsageServerAuth); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"kubernetes.default.svc", "10.200.0.11"} {
		if err := certificate(t, s, "server").VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestClientCertificateNamesUserAndGroupsAndServesNothing(t *testing.T) {
	s := store(t)
	if err := s.Issue("ca", "admin", Subject{User: "admin", Groups: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, s, "admin", x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
	if err := verify(t, s, "admin", x509.ExtKeyUsageServerAuth); err == nil {
		t.Error("a client's certificate is good for a server")
	}
	got := certificate(t, s, "admin").Subject
	if got.CommonName != "admin" || !cmp.Equal(got.Organization, []string{"system:masters"}) {
		t.Errorf("subject %s", got)
	}
}

func TestExistingFilesAreKept(t *testing.T) {
	s := store(t)
	issue := func() {
		for _, err := range []error{
			s.Authority("ca"), s.Issue("ca", "admin", Subject{User: "admin"}), s.KeyPair("accounts"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	files := []string{
		s.Cert("ca"), s.Key("ca"), s.Cert("admin"), s.Key("admin"), s.Key("accounts"), s.Public("accounts"),
	}
	read := func() []string {
		var contents []string
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, string(content))
		}
		return contents
	}
	issue()
	before := read()
	issue()
	if diff := cmp.Diff(before, read()); diff != "" {
		t.Errorf("files changed (-before +after):\n%s", diff)
	}
}

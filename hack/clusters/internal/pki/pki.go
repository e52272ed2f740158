package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

const validity = 365 * 24 * time.Hour

// Store holds keys and certificates as PEM files in a folder: NAME.crt, NAME.key, and NAME.pub for bare key pairs.
type Store struct {
	Dir string
	// Now is the time from which certificates are valid.
	Now time.Time
}

// Subject is the holder that a certificate names. With names or addresses, the certificate also serves a server.
type Subject struct {
	User      string
	Groups    []string
	Names     []string
	Addresses []netip.Addr
}

// Cert returns the path of a certificate.
func (s Store) Cert(name string) string { return filepath.Join(s.Dir, name+".crt") }

// Key returns the path of a private key.
func (s Store) Key(name string) string { return filepath.Join(s.Dir, name+".key") }

// Public returns the path of a public key.
func (s Store) Public(name string) string { return filepath.Join(s.Dir, name+".pub") }

// Authority makes a certificate authority, unless it exists.
func (s Store) Authority(name string) error {
	if exist(s.Cert(name), s.Key(name)) {
		return nil
	}
	key, template, err := s.template(pkix.Name{CommonName: name})
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("making certificate authority %q: %w", name, err)
	}
	return s.write(name, key, der)
}

// Issue makes a certificate that an authority of the store signs, unless the certificate exists.
func (s Store) Issue(authority, name string, subject Subject) error {
	if exist(s.Cert(name), s.Key(name)) {
		return nil
	}
	ca, caKey, err := s.load(authority)
	if err != nil {
		return err
	}
	key, template, err := s.template(pkix.Name{CommonName: subject.User, Organization: subject.Groups})
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template.DNSNames = subject.Names
	for _, address := range subject.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	if len(subject.Names)+len(subject.Addresses) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return fmt.Errorf("making certificate %q: %w", name, err)
	}
	return s.write(name, key, der)
}

// KeyPair makes a bare key pair, unless it exists.
func (s Store) KeyPair(name string) error {
	if exist(s.Key(name), s.Public(name)) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making key %q: %w", name, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding key %q: %w", name, err)
	}
	if err := s.writeKey(name, key); err != nil {
		return err
	}
	return writePEM(s.Public(name), "PUBLIC KEY", der)
}

func (s Store) template(name pkix.Name) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making key %q: %w", name.CommonName, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("making the serial number of %q: %w", name.CommonName, err)
	}
	return key, &x509.Certificate{
		SerialNumber: serial, Subject: name, NotBefore: s.Now.Add(-time.Hour), NotAfter: s.Now.Add(validity),
	}, nil
}

func (s Store) write(name string, key *ecdsa.PrivateKey, der []byte) error {
	if err := s.writeKey(name, key); err != nil {
		return err
	}
	return writePEM(s.Cert(name), "CERTIFICATE", der)
}

func (s Store) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding key %q: %w", name, err)
	}
	return writePEM(s.Key(name), "EC PRIVATE KEY", der)
}

func (s Store) load(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	der, err := readPEM(s.Cert(name))
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing certificate %q: %w", name, err)
	}
	der, err = readPEM(s.Key(name))
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing key %q: %w", name, err)
	}
	return cert, key, nil
}

func exist(paths ...string) bool {
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return false
		}
	}
	return true
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("reading %q: no PEM block", path)
	}
	return block.Bytes, nil
}

func writePEM(path, kind string, der []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %q: %w", path, err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

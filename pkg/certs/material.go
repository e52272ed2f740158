package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret.
const (
	keyAuthorities  = "ca.crt" // The first one signs.
	keyAuthorityKey = "ca.key"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	authorityRenewal  = 365 * 24 * time.Hour // before the end
	servingLifetime   = 90 * 24 * time.Hour
	servingRenewal    = 30 * 24 * time.Hour

	// notice is how long a new authority is only published before it signs.
	notice = time.Hour
	// skew is how late the clock of an API server may be.
	skew = 5 * time.Minute
)

// material is the content of the Secret. Missing and broken parts are nil.
type material struct {
	authorities  []*x509.Certificate // All are trusted. The first one belongs to authorityKey.
	authorityKey crypto.Signer
	serving      *tls.Certificate
}

// parse reads the Secret's data, and leaves out the parts that cannot be used.
func parse(data map[string][]byte) material {
	m := material{authorities: parseCertificates(data[keyAuthorities])}
	key := parseKey(data[keyAuthorityKey])
	if key != nil && len(m.authorities) > 0 && publicEqual(key, m.authorities[0]) {
		m.authorityKey = key
	}
	if pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err == nil {
		m.serving = &pair
	}
	return m
}

// plan says which parts to renew now, and otherwise when to decide again.
type plan struct {
	authority, serving bool
	next               time.Time
}

// decide returns the plan for the material.
func decide(m material, host string, now time.Time) plan {
	if m.authorityKey == nil || !now.Before(m.authorities[0].NotAfter.Add(-authorityRenewal)) {
		// The certificate of the earlier authority stays in use until API servers know the new authority.
		return plan{authority: true, serving: !usable(m, host, now)}
	}
	if !usable(m, host, now) {
		return plan{serving: true}
	}
	due := m.serving.Leaf.NotAfter.Add(-servingRenewal)
	if known := m.authorities[0].NotBefore.Add(skew + notice); due.Before(known) {
		due = known
	}
	if !now.Before(due) {
		return plan{serving: true}
	}
	if authority := m.authorities[0].NotAfter.Add(-authorityRenewal); authority.Before(due) {
		due = authority
	}
	return plan{next: due}
}

// usable says whether API servers that trust the authorities accept the serving certificate.
func usable(m material, host string, now time.Time) bool {
	if m.serving == nil {
		return false
	}
	roots := x509.NewCertPool()
	for _, authority := range m.authorities {
		roots.AddCert(authority)
	}
	_, err := m.serving.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err == nil
}

// renew carries out the plan.
func (m material) renew(p plan, host string, now time.Time) (material, error) {
	var err error
	if p.authority {
		if m, err = m.renewAuthority(host, now); err != nil {
			return m, fmt.Errorf("issuing an authority: %w", err)
		}
	}
	if p.serving {
		if m.serving, err = m.issueServing(host, now); err != nil {
			return m, fmt.Errorf("issuing a serving certificate: %w", err)
		}
	}
	return m, nil
}

// renewAuthority adds a new authority, and drops expired ones.
func (m material) renewAuthority(host string, now time.Time) (material, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: host + " authority"},
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	authority, key, err := issue(template, nil, nil, now)
	if err != nil {
		return m, err
	}
	trusted := []*x509.Certificate{authority}
	for _, earlier := range m.authorities {
		if now.Before(earlier.NotAfter) {
			trusted = append(trusted, earlier)
		}
	}
	m.authorityKey, m.authorities = key, trusted
	return m, nil
}

func (m material) issueServing(host string, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: host},
		DNSNames:    []string{host},
		NotAfter:    now.Add(servingLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leaf, key, err := issue(template, m.authorities[0], m.authorityKey, now)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// issue makes a new key and signs the template for it, with the parent's key, or with the new key if there is no
// parent.
func issue(
	template, parent *x509.Certificate, parentKey crypto.Signer, now time.Time,
) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore = now.Add(-skew)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

// data returns the data of the Secret, which parse reads.
func (m material) data() (map[string][]byte, error) {
	authorityKey, err := x509.MarshalPKCS8PrivateKey(m.authorityKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the authority's key: %w", err)
	}
	servingKey, err := x509.MarshalPKCS8PrivateKey(m.serving.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the serving certificate's key: %w", err)
	}
	return map[string][]byte{
		keyAuthorities:          m.bundle(),
		keyAuthorityKey:         encode("PRIVATE KEY", authorityKey),
		corev1.TLSCertKey:       encode("CERTIFICATE", m.serving.Certificate[0]),
		corev1.TLSPrivateKeyKey: encode("PRIVATE KEY", servingKey),
	}, nil
}

// bundle returns the authorities that API servers trust.
func (m material) bundle() []byte {
	var bundle bytes.Buffer
	for _, authority := range m.authorities {
		bundle.Write(encode("CERTIFICATE", authority.Raw))
	}
	return bundle.Bytes()
}

func encode(blockType string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der})
}

func parseCertificates(raw []byte) []*x509.Certificate {
	var certificates []*x509.Certificate
	for {
		block, rest := pem.Decode(raw)
		if block == nil {
			return certificates
		}
		raw = rest
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, certificate)
		}
	}
}

func parseKey(raw []byte) crypto.Signer {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	signer, _ := key.(crypto.Signer)
	return signer
}

func publicEqual(key crypto.Signer, certificate *x509.Certificate) bool {
	public, ok := key.Public().(*ecdsa.PublicKey)
	return ok && public.Equal(certificate.PublicKey)
}

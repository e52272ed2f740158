package kubeconfig

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"k8s.io/client-go/rest"
)

// Bounds of what a kubeconfig has for TLS. Computing with larger keys takes minutes to days, and nothing can end it.
const (
	maxKey          = 16 << 10 // bytes of PEM
	maxCertificates = 64 << 10
	maxAuthorities  = 256 << 10
	maxRSA          = 16384 // bits
)

// checkTLS refuses keys and certificates that are costly to use.
func checkTLS(config *rest.TLSClientConfig) error {
	for _, part := range []struct {
		field string
		data  []byte
		most  int
	}{
		{"client-key-data", config.KeyData, maxKey},
		{"client-certificate-data", config.CertData, maxCertificates},
		{"certificate-authority-data", config.CAData, maxAuthorities},
	} {
		if len(part.data) > part.most {
			return fmt.Errorf("its %s has %d bytes, and may have %d", part.field, len(part.data), part.most)
		}
		if hasHugeKey(part.data) {
			return fmt.Errorf("its %s has a certificate whose RSA key has more than %d bits", part.field, maxRSA)
		}
	}
	return nil
}

// hasHugeKey says whether a certificate in PEM has a huge RSA key. What cannot be read is no certificate.
func hasHugeKey(data []byte) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if key, ok := certificate.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
			return true
		}
	}
	return false
}

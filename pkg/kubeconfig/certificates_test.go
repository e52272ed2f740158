package kubeconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// certificate returns one with an RSA key of so many bits, in PEM.
func certificate(t *testing.T, bits uint) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), bits-1)
	key := &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestKeysThatTakeDaysAreRefused(t *testing.T) {
	ordinary, huge := certificate(t, 4096), certificate(t, maxRSA+1)
	for name, test := range map[string]struct {
		config rest.TLSClientConfig
		want   string
	}{
		"nothing":              {},
		"ordinary ones":        {config: rest.TLSClientConfig{CertData: ordinary, CAData: ordinary}},
		"a huge authority":     {rest.TLSClientConfig{CAData: huge}, "certificate-authority-data has a certificate"},
		"behind another one":   {rest.TLSClientConfig{CAData: append(ordinary, huge...)}, "more than 16384 bits"},
		"a huge certificate":   {rest.TLSClientConfig{CertData: huge}, "client-certificate-data has a certificate"},
		"a key that is long":   {rest.TLSClientConfig{KeyData: make([]byte, maxKey+1)}, "client-key-data has 16385"},
		"authorities too many": {rest.TLSClientConfig{CAData: make([]byte, 1<<20)}, "may have 262144"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkTLS(&test.config)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

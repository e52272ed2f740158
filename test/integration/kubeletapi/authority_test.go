package kubeletapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// authority plays the signer kubernetes.io/kubelet-serving: it approves and signs the requests that this would sign.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	env.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	env.Must(t, err)
	certificate, err := x509.ParseCertificate(der)
	env.Must(t, err)
	return &authority{certificate: certificate, key: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a *authority) sign(t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	request, err := certificates.ParseCSR(csr.Spec.Request)
	env.Must(t, err)
	usages := sets.New[string]()
	for _, usage := range csr.Spec.Usages {
		usages.Insert(string(usage))
	}
	if err := certificates.ValidateKubeletServingCSR(request, sets.NewString(usages.UnsortedList()...)); err != nil {
		t.Fatalf("a request that kubernetes.io/kubelet-serving refuses: %v", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: request.Subject, IPAddresses: request.IPAddresses,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.certificate, request.PublicKey, a.key)
	env.Must(t, err)
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"},
	}
	env.Must(t, source.Client.SubResource("approval").Update(t.Context(), csr))
	env.ChangeStatus(t, source, csr, func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	})
}

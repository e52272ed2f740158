package server

import (
	"crypto/x509"
	"net"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestSelfSignedCertificateIsForTheAddressAndRenewedInTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	s := &selfSigned{clock: clock, ip: net.IPv4(10, 0, 0, 7)}
	first, err := s.certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(first.Leaf)
	options := x509.VerifyOptions{DNSName: "10.0.0.7", Roots: roots, CurrentTime: now}
	if _, err := first.Leaf.Verify(options); err != nil {
		t.Errorf("clients that trust the certificate refuse it: %v", err)
	}
	clock.SetTime(now.Add(validity - renewBefore - time.Minute))
	if again, err := s.certificate(nil); err != nil || again != first {
		t.Errorf("renewed early: %v", err)
	}
	clock.SetTime(now.Add(validity - renewBefore))
	renewed, err := s.certificate(nil)
	if err != nil || renewed == first || !renewed.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Errorf("not renewed: %v", err)
	}
}

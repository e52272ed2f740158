package token

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"
)

const (
	// longest is the longest life that a source asks for. The admission policy of targets allows no longer one.
	longest = 24 * time.Hour
	// shortest is the shortest life that API servers accept.
	shortest = 10 * time.Minute
	// maxLength bounds the tokens that targets make us keep. Those of Kubernetes have 1 to 1.5 KiB.
	maxLength = 4 << 10
	// interval is the shortest time between two renewals.
	interval = time.Minute
)

// credential is a token or a client certificate. A zero time means that it does not expire.
type credential struct {
	token string
	// begins is the beginning of its life, and expires is the end, by our clock.
	begins, expires time.Time
	// ends is the end of a token by the clock of its target.
	ends time.Time
	// renewed is when the manager got it, or zero for the user's own.
	renewed time.Time
	// account is the service account of a token, or empty.
	account types.NamespacedName
}

func (c credential) life() time.Duration { return c.expires.Sub(c.begins) }

// renewable says whether a token can perhaps be renewed.
func (c credential) renewable() bool {
	return c.token != "" && !c.expires.IsZero() && c.account.Name != ""
}

// due is when to renew the credential: between 50 % and 60 % of its life.
func (c credential) due(jitter float64) time.Time {
	due := c.begins.Add(time.Duration(float64(c.life()) * (0.5 + 0.1*jitter)))
	if earliest := c.renewed.Add(interval); due.Before(earliest) {
		return earliest
	}
	return due
}

// late is when it is time for a warning: 10 % of its life are left.
func (c credential) late() time.Time { return c.expires.Add(-c.life() / 10) }

// lifeOfNext is how long a token like this one is asked to live.
func (c credential) lifeOfNext() time.Duration { return min(max(c.life(), shortest), longest) }

// claims are those of a token that matter here. Nobody verifies them: they are those of our own credentials.
type claims struct {
	Subject string  `json:"sub"`
	Issued  float64 `json:"iat"`
	Expires float64 `json:"exp"`
}

var errNotAToken = errors.New("it is no token of a service account")

// parseToken reads the claims of a token.
func parseToken(token string) (claims, error) {
	var parsed claims
	if len(token) > maxLength {
		return parsed, fmt.Errorf("it is longer than %d bytes", maxLength)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || strings.ContainsAny(token, "\r\n") { // The decoder ignores these.
		return parsed, errNotAToken
	}
	for i, part := range parts {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return parsed, errNotAToken
		}
		if i == 1 && json.Unmarshal(raw, &parsed) != nil {
			return parsed, errNotAToken
		}
	}
	return parsed, nil
}

func (c claims) account() types.NamespacedName {
	namespace, name, err := serviceaccount.SplitUsername(c.Subject)
	if err != nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// credentialOf returns the credential of a kubeconfig. now is the beginning of its life if it does not say. It is empty
// for a token in a file, which somebody else renews.
func credentialOf(config *rest.Config, now time.Time) credential {
	if config.BearerTokenFile != "" {
		return credential{}
	}
	if config.BearerToken == "" {
		return certificateOf(config)
	}
	c := credential{token: config.BearerToken}
	parsed, err := parseToken(config.BearerToken)
	if err != nil || parsed.Expires == 0 {
		return c // An opaque token says nothing about its end.
	}
	c.account, c.ends, c.expires, c.begins = parsed.account(), seconds(parsed.Expires), seconds(parsed.Expires), now
	if parsed.Issued != 0 {
		c.begins = seconds(parsed.Issued)
	}
	if ahead := c.begins.Sub(now); ahead > 0 { // The target's clock is ahead of ours.
		c.begins, c.expires = now, c.expires.Add(-ahead)
	}
	return c
}

func certificateOf(config *rest.Config) credential {
	block, _ := pem.Decode(config.CertData)
	if block == nil {
		return credential{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return credential{}
	}
	return credential{begins: certificate.NotBefore, expires: certificate.NotAfter}
}

// renewedAt returns the credential of a renewed token that arrived at a time.
func renewedAt(token string, arrived time.Time) (credential, error) {
	parsed, err := parseToken(token)
	if err != nil {
		return credential{}, err
	}
	life := seconds(parsed.Expires).Sub(seconds(parsed.Issued))
	if parsed.Issued == 0 || life <= 0 {
		return credential{}, errors.New("it does not say how long it lives")
	}
	return credential{
		token: token, begins: arrived, expires: arrived.Add(life), ends: seconds(parsed.Expires), renewed: arrived,
		account: parsed.account(),
	}, nil
}

func seconds(unix float64) time.Time { return time.Unix(int64(unix), 0) }

// fingerprintOf identifies a kubeconfig: whom it trusts, and as whom it connects.
func fingerprintOf(config *rest.Config) string {
	sum := sha256.New()
	for _, field := range []string{
		config.Host, config.APIPath, config.ServerName, fmt.Sprint(config.Insecure), string(config.CAData),
		config.BearerToken, string(config.CertData), string(config.KeyData), config.Username, config.Password,
		fmt.Sprint(config.Impersonate),
	} {
		fmt.Fprintf(sum, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

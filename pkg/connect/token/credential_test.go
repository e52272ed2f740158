package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// start is when the tests begin.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const account = "system:serviceaccount:admiralty:c1"

// jwt returns a token with these claims, which nobody signed.
func jwt(claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "." + encode([]byte("signature"))
}

// issued returns a token of an account that is valid for a while.
func issued(account string, at time.Time, life time.Duration) string {
	return jwt(map[string]any{"sub": account, "iat": at.Unix(), "exp": at.Add(life).Unix()})
}

func certificate(t *testing.T, from, to time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestWhatIsRenewedAndWhatExpires(t *testing.T) {
	certified := &rest.Config{}
	certified.CertData = certificate(t, start, start.Add(time.Hour))
	type result struct {
		Expires   time.Duration // after the start; 0 if never
		Renewable bool
	}
	for name, test := range map[string]struct {
		config *rest.Config
		want   result
	}{
		"a token of a service account": {
			&rest.Config{BearerToken: issued(account, start, time.Hour)}, result{time.Hour, true},
		},
		"a token without an end": {
			&rest.Config{BearerToken: jwt(map[string]any{"sub": account, "iat": start.Unix()})}, result{},
		},
		"a token of a person": {
			&rest.Config{BearerToken: issued("alice", start, time.Hour)}, result{time.Hour, false},
		},
		"an opaque token": {&rest.Config{BearerToken: "abc.def"}, result{}},
		"a token in a file": {
			&rest.Config{BearerToken: issued(account, start, time.Hour), BearerTokenFile: "f"}, result{},
		},
		"a certificate":      {certified, result{time.Hour, false}},
		"nothing":            {&rest.Config{}, result{}},
		"a broken JSON part": {&rest.Config{BearerToken: "e30.YWJj.e30"}, result{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := credentialOf(test.config, start)
			got := result{Renewable: c.renewable()}
			if !c.expires.IsZero() {
				got.Expires = c.expires.Sub(start)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhenToRenewAndForHowLong(t *testing.T) {
	for name, test := range map[string]struct {
		credential     credential
		first, last    time.Duration // after the start
		late, asksToBe time.Duration
	}{
		"a day": {
			credential{begins: start, expires: start.Add(24 * time.Hour)},
			12 * time.Hour, 14*time.Hour + 24*time.Minute, 21*time.Hour + 36*time.Minute, 24 * time.Hour,
		},
		"a year is renewed to a day": {
			credential{begins: start, expires: start.Add(1000 * time.Hour)}, 500 * time.Hour, 600 * time.Hour,
			900 * time.Hour, 24 * time.Hour,
		},
		"ten minutes": {
			credential{begins: start, expires: start.Add(10 * time.Minute)}, 5 * time.Minute, 6 * time.Minute,
			9 * time.Minute, 10 * time.Minute,
		},
		"a target that makes tokens of a second does not have us ask all the time": {
			credential{begins: start, expires: start.Add(time.Second), renewed: start}, time.Minute, time.Minute,
			900 * time.Millisecond, 10 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.credential
			got := []time.Duration{
				c.due(0).Sub(start), c.due(1).Sub(start), c.late().Sub(start), c.lifeOfNext(),
			}
			if diff := cmp.Diff([]time.Duration{test.first, test.last, test.late, test.asksToBe}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARenewedTokenLivesByOurClock(t *testing.T) {
	wrong := start.Add(-time.Hour) // The target's clock is an hour behind.
	c, err := renewedAt(issued(account, wrong, 10*time.Minute), start)
	if err != nil {
		t.Fatal(err)
	}
	if want := start.Add(10 * time.Minute); !c.expires.Equal(want) {
		t.Errorf("it expires at %s, want %s", c.expires, want)
	}
	if want := (types.NamespacedName{Namespace: "admiralty", Name: "c1"}); c.account != want {
		t.Errorf("its account is %s", c.account)
	}
}

func TestATokenOfAClockThatIsAheadIsRenewedInTime(t *testing.T) {
	token := issued(account, start.Add(time.Hour), time.Hour)
	c := credentialOf(&rest.Config{BearerToken: token}, start)
	if want := start.Add(time.Hour); !c.expires.Equal(want) {
		t.Errorf("it expires at %s, want %s", c.expires, want)
	}
	if want := start.Add(30 * time.Minute); !c.due(0).Equal(want) {
		t.Errorf("it is renewed at %s, want %s", c.due(0), want)
	}
	late := start.Add(30 * time.Minute)
	next := entry{Fingerprint: "f", Token: issued(account, late.Add(time.Hour), time.Hour), Renewed: late}
	if _, ok := next.replaces(credentialOf(&rest.Config{BearerToken: token}, late.Add(10*time.Minute)), "f"); !ok {
		t.Error("the next leader prefers the first token to the renewed one")
	}
}

func TestTokensThatTargetsMustNotMakeUsKeep(t *testing.T) {
	for name, token := range map[string]string{
		"no token":               "hello",
		"one that is too long":   issued(account+strings.Repeat("x", maxLength), start, time.Hour),
		"one that never expires": jwt(map[string]any{"sub": account, "iat": start.Unix()}),
		"one that has expired":   issued(account, start, -time.Hour),
		"one that lives no time": issued(account, start, 0),
		"one with a line break":  issued(account, start, time.Hour) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := renewedAt(token, start); err == nil {
				t.Error("it is accepted")
			}
		})
	}
}

func TestTheLongestTokenIsKept(t *testing.T) {
	claims := map[string]any{"sub": account, "iat": start.Unix(), "exp": start.Unix() + 60, "x": ""}
	for length := 0; len(jwt(claims)) < maxLength; length++ {
		claims["x"] = strings.Repeat("x", length)
	}
	token := jwt(claims)
	if len(token) != maxLength {
		t.Fatalf("the token has %d bytes, want %d", len(token), maxLength)
	}
	if _, err := renewedAt(token, start); err != nil {
		t.Error(err)
	}
}

func TestTheFingerprintIsThatOfTheKubeconfig(t *testing.T) {
	base := rest.Config{Host: "https://c2", BearerToken: "a"}
	same := base
	same.QPS, same.UserAgent = -1, "manager"
	if fingerprintOf(&base) != fingerprintOf(&same) {
		t.Error("settings of the manager change it")
	}
	for name, change := range map[string]func(*rest.Config){
		"another address":   func(c *rest.Config) { c.Host = "https://c3" },
		"another token":     func(c *rest.Config) { c.BearerToken = "b" },
		"another authority": func(c *rest.Config) { c.CAData = []byte("x") },
		"another user":      func(c *rest.Config) { c.Impersonate.UserName = "x" },
	} {
		other := base
		if change(&other); fingerprintOf(&base) == fingerprintOf(&other) {
			t.Errorf("%s does not change it", name)
		}
	}
}

func TestPauses(t *testing.T) {
	for name, test := range map[string]struct {
		failures  int
		life      time.Duration
		forbidden bool
		want      time.Duration
	}{
		"the first failure":                {0, 24 * time.Hour, false, 10 * time.Second},
		"the fourth failure":               {3, 24 * time.Hour, false, 80 * time.Second},
		"many failures":                    {100, 24 * time.Hour, false, 5 * time.Minute},
		"many failures of a short token":   {100, 10 * time.Minute, false, 30 * time.Second},
		"a refusal":                        {0, 24 * time.Hour, true, time.Hour},
		"a refusal to renew a short token": {0, 10 * time.Minute, true, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pauseAfter(test.failures, test.life, test.forbidden); got != test.want {
				t.Errorf("the pause is %s, want %s", got, test.want)
			}
		})
	}
}

func TestWhichRenewedTokensReplaceThatOfAKubeconfig(t *testing.T) {
	config := &rest.Config{BearerToken: issued(account, start, time.Hour)}
	fingerprint := fingerprintOf(config)
	at := start.Add(time.Minute)
	for name, test := range map[string]struct {
		config *rest.Config
		entry  entry
		want   bool
	}{
		"one that lives longer":          {config, entry{Token: issued(account, at, time.Hour)}, true},
		"one that ends at the same time": {config, entry{Token: issued(account, at, 59*time.Minute)}, true},
		"one that ends before":           {config, entry{Token: issued(account, at, 58*time.Minute)}, false},
		"one of another account":         {config, entry{Token: issued(account+"3", at, time.Hour)}, false},
		"one that cannot be read":        {config, entry{Token: "opaque"}, false},
		"one of another kubeconfig": {
			config, entry{Token: issued(account, at, time.Hour), Fingerprint: "other"}, false,
		},
		"one for a token that does not say when it ends": {
			&rest.Config{BearerToken: "opaque"}, entry{Token: issued(account, at, time.Hour)}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.entry.Fingerprint == "" {
				test.entry.Fingerprint = fingerprint
			}
			test.entry.Renewed = at
			c, ok := test.entry.replaces(credentialOf(test.config, start), fingerprint)
			if ok != test.want || ok && c.token != test.entry.Token {
				t.Errorf("it replaces it: %t, as %+v", ok, c)
			}
		})
	}
}

package proof

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	version = "v1"
	// purpose keeps a MAC of this package from being one of another kind, should the key ever serve another one.
	purpose = "multicluster.admiralty.io PodChaperon"

	keyLength   = 32
	keyIDLength = 4
	macLength   = 16

	// skew is how much clocks may differ. The key's time comes from the manager's clock, and is compared with creation
	// times from API servers.
	skew = time.Minute
)

// Claim is the content of a proof: the PodChaperon was made for this proxy and this target.
type Claim struct {
	// UID and Proxy are of the proxy.
	UID   types.UID
	Proxy types.NamespacedName
	// Target is the name of the ClusterTarget (with an empty namespace) or Target.
	Target types.NamespacedName
}

// ClaimOf returns the claim of the proxy's PodChaperon in a target.
func ClaimOf(proxy *corev1.Pod, target types.NamespacedName) Claim {
	return Claim{
		UID:    proxy.UID,
		Proxy:  types.NamespacedName{Namespace: proxy.Namespace, Name: proxy.Name},
		Target: target,
	}
}

// Keys are the keys of one source. There is at least one. They do not change, and are safe for concurrent use.
type Keys struct {
	// all of them verify. The first one signs.
	all []key
}

type key struct {
	created time.Time
	secret  []byte
}

// Sign returns the proof of a claim. The proof is "v1.", the ID of the key, ".", and the MAC.
func (k *Keys) Sign(claim Claim) string { return k.all[0].sign(claim) }

// Verify says whether the proof is that of the claim, with any of the keys. Its time does not depend on how much of a
// wrong proof is right.
func (k *Keys) Verify(claim Claim, proof string) bool {
	valid := false
	for _, key := range k.all {
		if hmac.Equal([]byte(key.sign(claim)), []byte(proof)) {
			valid = true
		}
	}
	return valid
}

// CreatedAt returns the time since which every PodChaperon has a proof that Verify accepts. It is a minute late,
// because clocks differ.
func (k *Keys) CreatedAt() time.Time {
	oldest := k.all[0].created
	for _, key := range k.all {
		if key.created.Before(oldest) {
			oldest = key.created
		}
	}
	return oldest.Add(skew)
}

// Generate returns one new random key.
func Generate(now time.Time) *Keys { return &Keys{all: []key{newKey(now)}} }

func newKey(now time.Time) key {
	k := key{created: now.UTC().Truncate(time.Second), secret: make([]byte, keyLength)}
	_, _ = rand.Read(k.secret) // It never fails.
	return k
}

func (k key) sign(claim Claim) string {
	mac := hmac.New(sha256.New, k.secret)
	for _, field := range []string{
		purpose, string(claim.UID), claim.Proxy.Namespace, claim.Proxy.Name, claim.Target.Namespace, claim.Target.Name,
	} {
		_ = binary.Write(mac, binary.BigEndian, uint64(len(field))) // A hash takes everything.
		_, _ = mac.Write([]byte(field))
	}
	return version + "." + k.id() + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:macLength])
}

// id is for people who want to know which key a proof is of.
func (k key) id() string {
	sum := sha256.Sum256(k.secret)
	return hex.EncodeToString(sum[:keyIDLength])
}

// encode returns the key's line in the Secret, which parse reads.
func (k key) encode() []byte {
	return fmt.Appendf(nil, "%s %s\n", k.created.Format(time.RFC3339), base64.StdEncoding.EncodeToString(k.secret))
}

// parse reads the keys of the Secret. Each line is the time at which a key was created, a space, and the key in base64.
// It returns nil if there are none.
func parse(data []byte) (*Keys, error) {
	keys := &Keys{}
	for n, line := range bytes.Split(data, []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		parsed, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		keys.all = append(keys.all, parsed)
	}
	if len(keys.all) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	return keys, nil
}

// parseLine does not repeat the line in its errors.
func parseLine(fields [][]byte) (key, error) {
	const want = "want a time in RFC 3339, a space, and %d bytes in base64"
	if len(fields) != 2 {
		return key{}, fmt.Errorf("%d words; "+want, len(fields), keyLength)
	}
	created, err := time.Parse(time.RFC3339, string(fields[0]))
	if err != nil {
		return key{}, fmt.Errorf("no time at the beginning; "+want, keyLength)
	}
	secret, err := base64.StdEncoding.DecodeString(string(fields[1]))
	if err != nil || len(secret) != keyLength {
		return key{}, fmt.Errorf("no key at the end; "+want, keyLength)
	}
	return key{created: created, secret: secret}, nil
}

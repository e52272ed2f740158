package certs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const host = "webhook.admiralty.svc"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func issued(t *testing.T, at time.Time) material {
	t.Helper()
	m, err := material{}.renew(plan{authority: true, serving: true}, host, at)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDecideWhatToRenew(t *testing.T) {
	const day = 24 * time.Hour
	fresh := issued(t, start)
	servingDue := start.Add(servingLifetime - servingRenewal)
	authorityDue := start.Add(authorityLifetime - authorityRenewal)

	late := fresh // The serving certificate was renewed shortly before the authority is due.
	late, err := late.renew(plan{serving: true}, host, authorityDue.Add(-day))
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := late.renew(plan{authority: true}, host, authorityDue)
	if err != nil {
		t.Fatal(err)
	}
	noKey := fresh
	noKey.authorityKey = nil

	cases := map[string]struct {
		material material
		host     string
		now      time.Time
		want     plan
	}{
		"the Secret is empty": {
			material{}, host, start, plan{authority: true, serving: true},
		},
		"authority and certificate are new":               {fresh, host, start, plan{next: servingDue}},
		"the serving certificate is a month from its end": {fresh, host, servingDue, plan{serving: true}},
		"the Service has another name": {
			fresh, "other.admiralty.svc", start, plan{serving: true},
		},
		"authority and certificate have expired": {
			fresh, host, start.Add(authorityLifetime + day), plan{authority: true, serving: true},
		},
		"the authority is due before the certificate": {
			late, host, authorityDue.Add(-day), plan{next: authorityDue},
		},
		"the authority is a year from its end": {late, host, authorityDue, plan{authority: true}},
		"the authority's key is lost":          {noKey, host, start, plan{authority: true}},
		"a new authority waits for the certificate's own time": {
			replaced, host, authorityDue, plan{next: authorityDue.Add(servingLifetime - servingRenewal - day)},
		},
		"a new authority does not sign before it is well known": {
			replaced, host, authorityDue.Add(servingLifetime), plan{serving: true},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, decide(c.material, c.host, c.now), cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewAuthoritySignsOnlyAfterItsNotice(t *testing.T) {
	servingDue := start.Add(servingLifetime - servingRenewal)
	m := issued(t, start)
	m.authorityKey = nil // The key is lost, and the serving certificate is due at the same time.
	m, err := m.renew(decide(m, host, servingDue), host, servingDue)
	if err != nil {
		t.Fatal(err)
	}
	want := plan{next: servingDue.Add(notice)}
	if diff := cmp.Diff(want, decide(m, host, servingDue), cmp.AllowUnexported(plan{})); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestCertificateIsTrustedForTwentyYears(t *testing.T) {
	m := issued(t, start)
	authorities := 1
	known := m // API servers know the authorities of an hour ago.
	for now := start; now.Before(start.Add(2 * authorityLifetime)); {
		p := decide(m, host, now)
		renewed, err := m.renew(p, host, now)
		if err != nil {
			t.Fatal(err)
		}
		if p.authority {
			authorities++
		}
		if m = renewed; !usable(material{authorities: known.authorities, serving: m.serving}, host, now) {
			t.Fatalf("at %s the certificate is not trusted by API servers that know the authorities of an hour ago",
				now)
		}
		next := decide(m, host, now).next
		if !next.After(now) {
			t.Fatalf("at %s the next look is at %s", now, next)
		}
		known, now = m, next
	}
	if authorities != 3 {
		t.Errorf("there were %d authorities in twenty years, want 3", authorities)
	}
}

func TestParseReadsTheEncodedMaterial(t *testing.T) {
	want := issued(t, start)
	want.authorities = append(want.authorities, issued(t, start).authorities...)
	data, err := want.data()
	if err != nil {
		t.Fatal(err)
	}
	got := parse(data)
	if !publicEqual(got.authorityKey, want.authorities[0]) || len(got.authorities) != 2 ||
		!got.serving.Leaf.Equal(want.serving.Leaf) {
		t.Errorf("the encoded material is parsed as %+v", got)
	}
}

func TestBrokenAuthorityKeyIsReplaced(t *testing.T) {
	data, err := issued(t, start).data()
	if err != nil {
		t.Fatal(err)
	}
	other, err := issued(t, start).data()
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string][]byte{
		"garbage": []byte("garbage"), "no key": nil, "another authority's key": other[keyAuthorityKey],
	} {
		data[keyAuthorityKey] = broken
		if p := decide(parse(data), host, start); !p.authority {
			t.Errorf("with %s as the authority's key, the plan is %+v", name, p)
		}
	}
}

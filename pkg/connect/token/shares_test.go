package token

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// largest returns an entry with the longest token that is kept.
func largest(target types.NamespacedName) entry {
	return entry{Target: targetkind.Name(target), Token: strings.Repeat("a", maxLength)}
}

// fill takes shares for the largest entries of Targets of a namespace, until there are no more. It returns how many.
func fill(t *testing.T, s *shares, namespace string, data map[string][]byte) int {
	t.Helper()
	for i := range 1000 {
		id, raw := encoded(t, types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)})
		if s.take(id, namespace, int64(len(raw)), data) != nil {
			return i
		}
	}
	t.Fatalf("the Targets of %s can have any number of entries", namespace)
	return 0
}

// encoded returns the largest entry of a target, as it is in the Secret.
func encoded(t *testing.T, target types.NamespacedName) (id string, raw []byte) {
	t.Helper()
	raw, err := json.Marshal(largest(target))
	if err != nil {
		t.Fatal(err)
	}
	return translate.TargetID(target), raw
}

func TestTargetsHaveAShareOfTheSecret(t *testing.T) {
	s := &shares{}
	if n := fill(t, s, "a", nil); n < 4 {
		t.Errorf("a namespace has room for %d tokens", n)
	}
	namespaces := 1
	for fill(t, s, fmt.Sprint("b", namespaces), nil) > 0 {
		namespaces++
	}
	if namespaces < 4 {
		t.Errorf("there is room for %d namespaces", namespaces)
	}
	first, raw := encoded(t, types.NamespacedName{Namespace: "a", Name: "0"})
	size := int64(len(raw))
	if err := s.take("cluster target", "", 1<<20, nil); err != nil {
		t.Errorf("a ClusterTarget needs a share: %v", err)
	}
	if err := s.take(first, "a", size, nil); err != nil {
		t.Errorf("a token of the same length does not replace another one: %v", err)
	}
	if s.take(first, "a", size+shareOfNamespace, nil) == nil || s.take("other", "a", size, nil) == nil {
		t.Error("there is room although the share is full")
	}
	s.give(first)
	if err := s.take("other", "a", size, nil); err != nil {
		t.Errorf("there is no room although an entry was deleted: %v", err)
	}
}

func TestTheNextLeaderCountsTheTokensOfTargets(t *testing.T) {
	data, size := map[string][]byte{"broken": []byte("{")}, int64(0)
	for i := range fill(t, &shares{}, "tenant", nil) {
		id, raw := encoded(t, types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint(i)})
		data[id] = raw
		size += int64(len(raw))
	}
	next := &shares{}
	if next.take("other", "tenant", 4<<10, data) == nil {
		t.Error("the namespace has a share for each leader")
	}
	if err := next.take("other", "another", 4<<10, data); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	id, raw := encoded(t, key())
	data[id] = raw
	if clusterTargets, targets := usage(data); targets != size || clusterTargets != int64(len(raw))+1 {
		t.Errorf("ClusterTargets have %d bytes, and Targets %d", clusterTargets, targets)
	}
}

func TestATargetWithoutAShareSaysSo(t *testing.T) {
	w := newWorld(t)
	if err := w.renewer.store.shares.take("other", "tenant", shareOfNamespace, nil); err != nil {
		t.Fatal(err)
	}
	tenants := types.NamespacedName{Namespace: "tenant", Name: "c3"}
	w.renewer.Keep(tenants, w.config)
	if _, err := w.renewer.Attach(t.Context(), tenants, w.config, wire.Dial{}); err != nil {
		t.Fatal(err)
	}
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.renewed()
	w.waitStatus(expires(w.clock.Now().Add(life), ""))
	w.eventually(func() error {
		stored := w.gather("multicluster_scheduler_renewed_tokens_bytes")
		if size, known := stored["Target"]; !known || size != 0 || stored["ClusterTarget"] == 0 {
			return fmt.Errorf("the metric is %v", stored)
		}
		return nil
	})
	check := expires(w.clock.Now().Add(life), "the tokens of the Targets in a namespace may have 32 KiB there")
	w.eventually(func() error {
		target := &v1alpha1.Target{}
		if err := w.client.Get(t.Context(), tenants, target); err != nil {
			return err
		}
		return check(target.Status.Credentials)
	})
	stored := w.renewer.store.get(keyOf(translate.TargetID(tenants), fingerprintOf(w.config)))
	if diff := cmp.Diff(entry{}, stored); diff != "" {
		t.Errorf("it has an entry:\n%s", diff)
	}
}

package token

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// fill puts entries of Targets of a namespace until they are refused, and returns how many are there. The Targets
// exist, so that no leader deletes their entries.
func fill(w *world, namespace string) int {
	w.t.Helper()
	for i := range 1000 {
		target := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
		object := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: target.Namespace, Name: target.Name}}
		if err := w.client.Create(w.t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			w.t.Fatal(err)
		}
		if err := w.renewer.store.put(w.t.Context(), translate.TargetID(target), largest(target)); err != nil {
			return i
		}
	}
	w.t.Fatalf("the Targets of %s can have any number of entries", namespace)
	return 0
}

func TestTargetsHaveAShareOfTheSecret(t *testing.T) {
	w := newWorld(t)
	put := func(key types.NamespacedName, e entry) error {
		return w.renewer.store.put(t.Context(), translate.TargetID(key), e)
	}
	if n := fill(w, "a"); n < 4 {
		t.Errorf("a namespace has room for %d tokens", n)
	}
	namespaces := 1
	for fill(w, fmt.Sprint("b", namespaces)) > 0 {
		namespaces++
	}
	if namespaces < 4 {
		t.Errorf("there is room for %d namespaces", namespaces)
	}
	for i := range 150 {
		key := types.NamespacedName{Name: fmt.Sprint("cluster-target-", i)}
		if err := put(key, largest(key)); err != nil {
			t.Fatalf("ClusterTarget %d: %v", i, err)
		}
	}
	first, second := types.NamespacedName{Namespace: "a", Name: "0"}, types.NamespacedName{Namespace: "a", Name: "1"}
	if err := put(first, largest(first)); err != nil {
		t.Errorf("a token of the same length does not replace another one: %v", err)
	}
	other := types.NamespacedName{Namespace: "a", Name: "other"}
	if err := put(other, largest(other)); err == nil {
		t.Error("it takes one more")
	}
	ids := []string{translate.TargetID(first), translate.TargetID(second)}
	if err := w.renewer.store.remove(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	w.eventually(func() error { return put(other, largest(other)) })
}

func TestTheNextLeaderCountsTheTokensOfTargets(t *testing.T) {
	w := newWorld(t)
	n := fill(w, "tenant")
	w.run()
	w.eventually(func() error {
		usage := w.gather("multicluster_scheduler_renewed_tokens_bytes")
		bytes := int(usage["Target"])
		if bytes < n*maxLength || bytes > shareOfNamespace || usage["ClusterTarget"] > 0 {
			return fmt.Errorf("the metric is %v", usage)
		}
		return nil
	})
	if again := fill(w, "tenant"); again != n {
		t.Errorf("%d tokens, and then %d", n, again)
	}
}

func TestATargetWithoutAShareSaysSo(t *testing.T) {
	w := newWorld(t)
	fill(w, "tenant")
	tenants := types.NamespacedName{Namespace: "tenant", Name: "c3"}
	w.renewer.Keep(tenants, w.config)
	if _, err := w.renewer.Attach(t.Context(), tenants, w.config, wire.Dial{}); err != nil {
		t.Fatal(err)
	}
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.renewed()
	w.waitStatus(expires(w.clock.Now().Add(life), ""))
	check := expires(w.clock.Now().Add(life), "the tokens of the Targets in a namespace may have 32 KiB there")
	w.eventually(func() error {
		target := &v1alpha1.Target{}
		if err := w.client.Get(t.Context(), tenants, target); err != nil {
			return err
		}
		return check(target.Status.Credentials)
	})
	if diff := cmp.Diff(entry{}, w.renewer.store.get(translate.TargetID(tenants))); diff != "" {
		t.Errorf("it has an entry:\n%s", diff)
	}
}

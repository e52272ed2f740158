package attempts

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// administrator prepares objects. As master, with c1's name, it makes a copy that the policy would not let c1 make.
	administrator = "administrator"
	master        = "c1 with all rights"
	// held is a ConfigMap of c1 in shop that has a finalizer.
	held = "held-of-c1"
)

// Fill creates the objects at which attempts are made, as soon as the identities may do so. The login has all rights,
// and may impersonate others. Afterwards c1 has to lose its rights in the namespace left.
func (w *World) Fill(ctx context.Context, login *rest.Config) error {
	impersonated := rest.CopyConfig(login)
	user := w.identities[C1].user
	impersonated.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	if err := w.Add(master, user, impersonated); err != nil {
		return err
	}
	for _, namespace := range []string{Shop, Deselected, Other} {
		for _, k := range []kind{account, configMap, secret, claim, service, slice, ingress, pod} {
			if err := w.put(ctx, administrator, namespace, "web", k, `"labels":{}`); err != nil {
				return err
			}
		}
	}
	owner := &corev1.Secret{}
	if err := w.target.Get(ctx, client.ObjectKey{Namespace: w.Namespace(Shop), Name: "web"}, owner); err != nil {
		return err
	}
	w.ownerUID = owner.UID
	for _, fill := range []func(context.Context) error{w.fillCopies, w.fillChaperons, w.fillAsBefore} {
		if err := fill(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Release takes the finalizer off the object that has one.
func (w *World) Release(ctx context.Context) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace(Shop), Name: held}}
	released := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(w.target.Patch(ctx, object, released))
}

// fillCopies creates the copies of both ClusterSources.
func (w *World) fillCopies(ctx context.Context) error {
	for _, who := range []string{C1, C2} {
		name := nameOf(who)
		for _, k := range []kind{configMap, secret, account, service, slice} {
			if err := w.put(ctx, who, Shop, "of-"+name, k, copied(k, name)); err != nil {
				return err
			}
		}
	}
	if err := w.put(ctx, C1, Deselected, "of-c1", configMap, marked("c1")); err != nil {
		return err
	}
	if err := w.put(ctx, C1, Shop, "of-c1", claim, marked("c1")); err != nil {
		return err
	}
	for name, metadata := range map[string]string{
		"tracked-of-c1": `"annotations":{"argocd.argoproj.io/tracking-id":"x"}`,
		held:            `"finalizers":["example.org/hold"],` + owners,
	} {
		if err := w.put(ctx, C1, Shop, name, configMap, marked("c1")); err != nil {
			return err
		}
		if err := w.expectDone(ctx, administrator, Shop, request{
			verb: "PATCH", path: configMap.path() + "/" + name, contentType: mediaMerge,
			body: `{"metadata":{` + metadata + `}}`,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) fillChaperons(ctx context.Context) error {
	for _, c := range []struct{ who, namespace, name, metadata string }{
		{C1, Shop, "of-c1", labelled("c1")},
		{C2, Shop, "of-c2", labelled("c2")},
		{C2, Other, "of-c2", labelled("c2")},
		{administrator, Shop, "of-nobody", `"labels":{}`},
	} {
		if err := w.put(ctx, c.who, c.namespace, c.name, chaperon, c.metadata); err != nil {
			return err
		}
	}
	return nil
}

// fillAsBefore creates objects that an earlier version let c1 create.
func (w *World) fillAsBefore(ctx context.Context) error {
	if err := w.put(ctx, master, Shop, "old-of-c1", slice, endpointsOf("web", "c1")); err != nil {
		return err
	}
	return w.put(ctx, master, Shop, "typed-of-c1", typed("example.org/any", ""), marked("c1"))
}

// put creates an object, as soon as the identity may do so.
//
//nolint:revive // reads like kubectl
func (w *World) put(ctx context.Context, who, namespace, name string, k kind, metadata string) error {
	return w.expectDone(ctx, who, namespace, request{
		verb: "POST", path: k.path(), contentType: mediaJSON, body: object(k, name, metadata),
	})
}

// expectDone makes a request until the API server carries it out.
func (w *World) expectDone(ctx context.Context, who, namespace string, r request) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			code, answer, err := w.do(ctx, who, namespace, r)
			last = answer
			return code < http.StatusMultipleChoices, err
		})
	if err != nil {
		return fmt.Errorf("%s in %s: %s %s: %w: %s", who, namespace, r.verb, r.path, err, last)
	}
	return nil
}

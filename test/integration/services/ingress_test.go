package services

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// createShop creates an Ingress of the Service "web", with TLS.
func createShop(t *testing.T, namespace string) *networkingv1.Ingress {
	t.Helper()
	ingress := newIngress(namespace, networkingv1.IngressServiceBackend{
		Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"},
	})
	ingress.Labels = map[string]string{"app": "shop"}
	ingress.Spec.IngressClassName = ptr.To("nginx")
	ingress.Spec.Rules = []networkingv1.IngressRule{{Host: "shop.example"}}
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"shop.example"}, SecretName: "shop-tls"}}
	env.Create(t, source, ingress)
	return ingress
}

func newIngress(namespace string, backend networkingv1.IngressServiceBackend) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{ObjectMeta: env.Meta(namespace, "shop")}
	ingress.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &backend}
	return ingress
}

// touch has the follower look at the Ingress again.
func touch(t *testing.T, ingress *networkingv1.Ingress) {
	t.Helper()
	env.Change(t, source, ingress, func(i *networkingv1.Ingress) { i.Labels["touched"] = i.ResourceVersion })
}

// expectKept checks that the TLS Secret of an Ingress is kept in a target.
func expectKept(t *testing.T, in *env.Target, ingress *networkingv1.Ingress) {
	t.Helper()
	env.ExpectEqual(t, "TLS Secrets in "+in.Key.Name, []string{"shop-tls"}, secrets.of(in, ingress))
}

// waitForNoneKept waits until no Secrets are kept in a target for the Ingress.
func waitForNoneKept(t *testing.T, in *env.Target, ingress *networkingv1.Ingress) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		if names := secrets.of(in, ingress); len(names) > 0 {
			return fmt.Errorf("still kept: %v", names)
		}
		return nil
	})
}

func TestAnIngressFollowsItsServices(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	ingress := createShop(t, namespace)
	waitForWorkers(t, namespace, c2)
	waitForNoCopy(t, c2, ingress)
	service, _ := createFollowed(t, c2, c3, "web")
	env.ExpectEqual(t, "spec", ingress.Spec, waitForCopy(t, c2, ingress).Spec)
	expectKept(t, c2, ingress)
	env.Change(t, source, ingress, func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "new.example" })
	waitForCopy(t, c2, ingress, func(c *networkingv1.Ingress) error {
		if c.Spec.Rules[0].Host != "new.example" {
			return fmt.Errorf("host %q", c.Spec.Rules[0].Host)
		}
		return nil
	})
	env.Delete(t, source, service)
	waitForNoCopy(t, c2, ingress)
	waitForNoCopy(t, c3, ingress)
	if names := secrets.of(c2, ingress); len(names) > 0 {
		t.Errorf("TLS Secrets %v are still kept", names)
	}
}

// createClass creates an IngressClass in a target until the test ends. If it is the default, it returns once the target
// uses it.
func createClass(t *testing.T, in *env.Target, name string, byDefault bool) {
	t.Helper()
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Controller = "example.com/" + name
	if byDefault {
		class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	env.Create(t, in.Cluster, class)
	probe := newIngress(in.Key.Namespace, networkingv1.IngressServiceBackend{
		Name: "probe", Port: networkingv1.ServiceBackendPort{Number: 1},
	})
	env.Eventually(t, func(ctx context.Context) error {
		made := probe.DeepCopy()
		if err := in.Cluster.Client.Create(ctx, made, client.DryRunAll); err != nil {
			return err
		}
		if got := ptr.Deref(made.Spec.IngressClassName, ""); (got == name) != byDefault {
			return fmt.Errorf("the default class is %q", got)
		}
		return nil
	})
}

func TestAnIngressWithoutAClassGetsTheTargetsAndKeepsIt(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	createClass(t, c2, "theirs", true)
	ingress := newIngress(namespace, networkingv1.IngressServiceBackend{
		Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"},
	})
	ingress.Labels = map[string]string{"app": "shop"}
	env.Create(t, source, ingress)
	createFollowed(t, c2, c3, "web")
	waitForCopy(t, c2, ingress)
	touch(t, ingress)
	changed := waitForCopy(t, c2, ingress, func(c *networkingv1.Ingress) error {
		if c.Labels["touched"] == "" {
			return errors.New("the change is not there")
		}
		return nil
	})
	env.ExpectEqual(t, "class", ptr.To("theirs"), changed.Spec.IngressClassName)
	waitForWorkers(t, namespace, c2)
	env.ExpectEqual(t, "class", ptr.To("theirs"), waitForCopy(t, c2, ingress).Spec.IngressClassName)
}

func TestAClassThatATargetLacksIsReported(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	ingress := createShop(t, namespace)
	createClass(t, c2, "nginx", false)
	createFollowed(t, c2, c3, "web")
	waitForCopy(t, c2, ingress)
	waitForCopy(t, c3, ingress)
	waitForReport(t, ingress, c3, `there is no IngressClass "nginx"`)
	expectKept(t, c3, ingress)
	waitForWorkers(t, namespace, c2)
	if all := reports(ingress, c2, ""); len(all) > 0 {
		t.Errorf("the events about %s are %q", c2.Key.Name, all)
	}
}

func TestAnIngressDoesNotExposeAServiceOfATargetsUsers(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	theirs := createTheirs(t, c2, "web")
	ingress := createShop(t, namespace)
	service, _ := createFollowed(t, c2, c3, "web")
	waitForCopy(t, c3, ingress)
	waitForReport(t, service, c2, "does not come from this cluster")
	touch(t, ingress)
	waitForWorkers(t, namespace, c2)
	expectNoCopy(t, c2, ingress)
	env.Delete(t, c2.Cluster, theirs)
	env.Change(t, source, service, func(service *corev1.Service) { service.Labels["tier"] = "front" })
	waitForCopy(t, c2, ingress)
}

func TestAnIngressComesAfterItsSecrets(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	secrets.refuse(c2, true)
	ingress := createShop(t, namespace)
	createFollowed(t, c2, c3, "web")
	waitForCopy(t, c3, ingress)
	waitForReport(t, ingress, c2, `the TLS Secret "shop-tls" exists there`)
	waitForWorkers(t, namespace, c2)
	expectNoCopy(t, c2, ingress)
	secrets.refuse(c2, false)
	touch(t, ingress)
	waitForCopy(t, c2, ingress)
}

func TestSecretsAreKeptAgainWhenARefusedIngressIsCopied(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	theirs := newIngress(namespace, networkingv1.IngressServiceBackend{
		Name: "theirs", Port: networkingv1.ServiceBackendPort{Number: 1},
	})
	env.Create(t, c2.Cluster, theirs)
	ingress := createShop(t, namespace)
	createFollowed(t, c2, c3, "web")
	waitForReport(t, ingress, c2, "does not come from this cluster")
	waitForNoneKept(t, c2, ingress)
	env.Delete(t, c2.Cluster, theirs)
	touch(t, ingress)
	waitForCopy(t, c2, ingress)
	expectKept(t, c2, ingress)
}

func TestTheSecretsOfARefusedIngressAreNotWrittenAgain(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	c3.Disengage()
	env.Create(t, c2.Cluster, newIngress(namespace, networkingv1.IngressServiceBackend{
		Name: "theirs", Port: networkingv1.ServiceBackendPort{Number: 1},
	}))
	ingress := createShop(t, namespace)
	createFollowed(t, c2, c3, "web")
	waitForReport(t, ingress, c2, "does not come from this cluster")
	waitForNoneKept(t, c2, ingress)
	before := secrets.writes()
	for range 3 {
		touch(t, ingress)
		waitForWorkers(t, namespace, c2)
	}
	env.ExpectEqual(t, "writes of Secrets", before, secrets.writes())
}

func TestATargetThatIsDisengagedKeepsNoSecrets(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	ingress := createShop(t, namespace)
	createFollowed(t, c2, c3, "web")
	waitForCopy(t, c2, ingress)
	waitForCopy(t, c3, ingress)
	c2.Disengage()
	waitForNoneKept(t, c2, ingress)
	expectKept(t, c3, ingress)
}

package services

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// engagedKnown engages the targets c2, which is known to lead to its cluster, and c3.
func engagedKnown(t *testing.T) (namespace string, c2, c3 *env.Target) {
	t.Helper()
	namespace, c2, c3 = engaged(t)
	c2.Customize = leadsToItsHost
	doEngage(t, c2)
	return namespace, c2, c3
}

func leadsToItsHost(e *engage.Target) { e.ClusterID = e.Config.Host }

// engageSibling engages the target eu, which leads to the same cluster as c2.
func engageSibling(t *testing.T, namespace string) *env.Target {
	t.Helper()
	eu := newTarget(namespace, "eu", cluster2)
	eu.Customize = leadsToItsHost
	doEngage(t, eu)
	return eu
}

// waitForCare waits until this copy, by its UID, belongs to a target.
func waitForCare[O client.Object](t *testing.T, in *env.Target, c O) {
	t.Helper()
	waitForCopy(t, in, c, func(now O) error {
		if now.GetUID() != c.GetUID() || now.GetLabels()[v1alpha1.LabelTargetHash] != in.Hash {
			return fmt.Errorf("labels %v, UID %s, was %s; want target hash %s",
				now.GetLabels(), now.GetUID(), c.GetUID(), in.Hash)
		}
		return nil
	})
}

func TestARenamedTargetTakesOverTheCopies(t *testing.T) {
	for name, oldFirst := range map[string]bool{
		"the old target goes before the new one comes": true, "the new target comes before the old one goes": false,
	} {
		t.Run(name, func(t *testing.T) {
			namespace, c2, c3 := engagedKnown(t)
			shop := createShop(t, namespace)
			web, slice := createFollowed(t, c2, c3, "web")
			waitForAddresses(t, c2, web, "10.1.0.1", "10.3.0.1")
			service, ingress := waitForCopy(t, c2, web), waitForCopy(t, c2, shop)
			if oldFirst {
				c2.Disengage()
			}
			eu := engageSibling(t, namespace)
			c2.Disengage()
			createChaperon(t, namespace, eu)
			setEndpoints(t, slice, map[string]string{
				"10.2.0.9": eu.NodeName, "10.3.0.1": c3.NodeName, "10.1.0.9": "node",
			})
			waitForAddresses(t, eu, web, "10.1.0.9", "10.3.0.1")
			waitForCare(t, eu, service)
			waitForCare(t, eu, ingress)
		})
	}
}

func TestCopiesThatARenamedTargetMadeGoWithTheirOriginals(t *testing.T) {
	namespace, c2, c3 := engagedKnown(t)
	ingress := createShop(t, namespace)
	service, _ := createFollowed(t, c2, c3, "web")
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")
	waitForCopy(t, c2, ingress)
	c2.Disengage()
	env.Delete(t, source, service)
	env.Delete(t, source, ingress)
	eu := engageSibling(t, namespace)
	waitForNoCopy(t, eu, service)
	waitForNoCopy(t, eu, ingress)
	waitForAddresses(t, eu, service)
}

func TestACopyIsHandedOverToAnotherTargetOfTheSameCluster(t *testing.T) {
	namespace, c2, _ := engagedKnown(t)
	eu := engageSibling(t, namespace)
	shop, web := createShop(t, namespace), create(t, namespace, "web")
	slice(t, web, map[string]string{"10.2.0.1": c2.NodeName, "10.2.0.2": eu.NodeName, "10.1.0.1": "node"})
	chaperon := createChaperon(t, namespace, c2)
	waitForAddresses(t, c2, web, "10.1.0.1", "10.2.0.2")
	service, ingress := waitForCopy(t, c2, web), waitForCopy(t, c2, shop)
	createChaperon(t, namespace, eu)
	waitForAddresses(t, c2, web, "10.1.0.1", "10.1.0.1", "10.2.0.1", "10.2.0.2") // The slices of both.
	waitForCare(t, c2, service)

	env.Delete(t, cluster2, chaperon)
	waitForCopy(t, c2, web, func(now *corev1.Service) error {
		passTime(t, web)
		if now.Labels[v1alpha1.LabelTargetHash] != eu.Hash {
			return errors.New("it still belongs to the target without delegates")
		}
		return nil
	})
	waitForCare(t, eu, service)
	waitForCare(t, eu, ingress)
	waitForAddresses(t, eu, web, "10.1.0.1", "10.2.0.1")
}

// A cluster may say that it is any other one.
func TestACopyIsNotHandedOverToATargetThatLacksIt(t *testing.T) {
	namespace, c2, _ := engagedKnown(t)
	liar := newTarget(namespace, "liar", cluster3)
	liar.Customize = func(e *engage.Target) { e.ClusterID = c2.ClusterID }
	doEngage(t, liar)
	web := create(t, namespace, "web")
	slice(t, web, map[string]string{"10.2.0.1": c2.NodeName, "10.3.0.1": liar.NodeName, "10.1.0.1": "node"})
	chaperon := createChaperon(t, namespace, c2)
	createChaperon(t, namespace, liar)
	waitForCopy(t, c2, web)
	waitForCopy(t, liar, web)

	env.Delete(t, cluster2, chaperon)
	made := &corev1.Service{ObjectMeta: env.Meta(namespace, "web")}
	env.Eventually(t, func(context.Context) error {
		passTime(t, web)
		if env.Exists(t, cluster2, made) {
			return fmt.Errorf("the copy is still there, with the labels %v", made.Labels)
		}
		return nil
	})
}

func TestACopyOfAnEarlierVersionGetsTheTargetID(t *testing.T) {
	namespace, c2, c3 := engagedKnown(t)
	shop := createShop(t, namespace)
	web, slice := createFollowed(t, c2, c3, "web")
	waitForAddresses(t, c2, web, "10.1.0.1", "10.3.0.1")
	waitForCopy(t, c2, shop)
	c2.Disengage()
	forget := func(labels map[string]string) { delete(labels, v1alpha1.LabelTargetID) }
	env.Change(t, cluster2, web, func(s *corev1.Service) { forget(s.Labels) })
	env.Change(t, cluster2, shop, func(i *networkingv1.Ingress) { forget(i.Labels) })
	service, ingress := waitForCopy(t, c2, web), waitForCopy(t, c2, shop)
	c2.Customize = leadsToItsHost
	doEngage(t, c2)
	setEndpoints(t, slice, map[string]string{"10.3.0.2": c3.NodeName, "10.1.0.2": "node"})
	waitForAddresses(t, c2, web, "10.1.0.2", "10.3.0.2")
	want := translate.TargetID(c2.Key)
	for _, c := range []client.Object{service, ingress} {
		waitForCopy(t, c2, c, func(now client.Object) error {
			if got := now.GetLabels()[v1alpha1.LabelTargetID]; now.GetUID() != c.GetUID() || got != want {
				return fmt.Errorf("target-id is %q, want %q on the same copy", got, want)
			}
			return nil
		})
	}
}

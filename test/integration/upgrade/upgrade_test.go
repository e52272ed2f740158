package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestUpgrade upgrades source c1 first, while the target is old. For c0, which stays old, the target is first.
func TestUpgrade(t *testing.T) {
	if !inItsOwnProcess(t) {
		return
	}
	startClusters(t)
	c1, c0 := newOldSource(t, "c1"), newOldSource(t, "c0")
	createOldConnection(t, c1)
	old := createOldPods(t, c1)
	ofC0 := c0.place(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: uuid.NewUUID()}})
	observed := observe(t)

	runManager(t, source, "target: false")
	waitConnected(t)
	for _, proxy := range old {
		followsItsDelegate(t, proxy, setOldStatus)
		waitRelabelled(t, proxy)
	}
	first := placeNew(t, "first", setOldStatus)
	observed.expectNoFaults(t)

	stop := c0.writesAllTheTime(t)
	upgradeTarget(t, c1, c0)
	for _, proxy := range append(old, first) {
		followsItsDelegate(t, proxy, setDelegateStatus)
	}
	delegateOf(t, ofC0.Name)
	delegateOf(t, c0.place(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: uuid.NewUUID()}}).Name)
	c0.writesCopies(t)
	placeNew(t, "second", setDelegateStatus)
	waitConnected(t)
	stop()
	observed.expectNoFaults(t)
}

// TestUpgradeOfTheTargetFirst upgrades the target while source c1 is old, and then the source.
func TestUpgradeOfTheTargetFirst(t *testing.T) {
	if !inItsOwnProcess(t) {
		return
	}
	startClusters(t)
	c1 := newOldSource(t, "c1")
	createOldConnection(t, c1)
	old := createOldPods(t, c1)
	observed := observe(t)

	stop := c1.writesAllTheTime(t)
	upgradeChart(t)
	runManager(t, target, "source: false")
	saysWhatIsMissing(t, c1)
	applyCustomResources(t, func(string) bool { return true })
	waitGranted(t, c1)
	for _, proxy := range old {
		reportsItsDelegate(t, proxy)
	}
	c1.writesCopies(t)
	between := createOldWaitingPod(t, c1, "between")
	reportsItsDelegate(t, between)
	stop()
	observed.expectNoFaults(t)

	runManager(t, source, "target: false")
	waitConnected(t)
	for _, proxy := range append(old, between) {
		followsItsDelegate(t, proxy, setDelegateStatus)
		waitRelabelled(t, proxy)
	}
	placeNew(t, "second", setDelegateStatus)
	observed.expectNoFaults(t)
}

// createOldPods creates proxies that run, one whose PodChaperon lost a label, and one that waits for the target.
func createOldPods(t *testing.T, c1 *oldSource) []*corev1.Pod {
	t.Helper()
	return []*corev1.Pod{
		createOldPod(t, c1, "web"), createOldPod(t, c1, "api"), createOldUnlabelledPod(t, c1, "unlabelled"),
		createOldWaitingPod(t, c1, "waiting"),
	}
}

// upgradeTarget upgrades the target, and waits until its sources have their present rights.
func upgradeTarget(t *testing.T, sources ...*oldSource) {
	t.Helper()
	applyCustomResources(t, func(string) bool { return true })
	upgradeChart(t)
	runManager(t, target, "source: false")
	for _, source := range sources {
		waitGranted(t, source)
	}
}

// saysWhatIsMissing waits until the status of a ClusterSource says that nobody applied the new custom resource
// definition. The delegates of old PodChaperons are made meanwhile.
func saysWhatIsMissing(t *testing.T, c *oldSource) {
	t.Helper()
	object := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	env.WaitFor(t, target, object, func(found *v1alpha1.ClusterSource) error {
		ready := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || !strings.Contains(ready.Message, "sourcegrants.multicluster.admiralty.io is missing") {
			return fmt.Errorf("its condition is %+v", ready)
		}
		return nil
	})
}

// reportsItsDelegate gives a delegate another status, and waits until its PodChaperon has it, for the old source to
// read.
func reportsItsDelegate(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	message := string(uuid.NewUUID())
	setDelegateStatus(t, proxy, statusWith(message))
	env.WaitFor(t, target, chaperonOf(proxy), func(c *v1alpha1.PodChaperon) error {
		if c.Status.Message != message {
			return fmt.Errorf("its status is %+v", c.Status)
		}
		return nil
	})
}

func waitConnected(t *testing.T) {
	t.Helper()
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: targetName}}
	env.WaitFor(t, source, object, func(found *v1alpha1.ClusterTarget) error {
		if !meta.IsStatusConditionTrue(found.Status.Conditions, v1alpha1.ConditionConnected) {
			return fmt.Errorf("conditions are %+v", found.Status.Conditions)
		}
		return nil
	})
}

// chaperonOf returns the PodChaperon of a proxy, to be read.
func chaperonOf(proxy *corev1.Pod) *v1alpha1.PodChaperon {
	return &v1alpha1.PodChaperon{ObjectMeta: env.Meta(shop, translate.DelegateName(proxy))}
}

// waitRelabelled waits until a PodChaperon of before has the present labels and a proof.
func waitRelabelled(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	env.WaitFor(t, target, chaperonOf(proxy), func(c *v1alpha1.PodChaperon) error {
		if len(c.Labels[v1alpha1.LabelTargetID]) != 40 || c.Labels[v1alpha1.LabelTargetHash] != targetHash ||
			c.Annotations[v1alpha1.AnnotationProof] == "" {
			return fmt.Errorf("its labels are %v, its annotations %v", c.Labels, c.Annotations)
		}
		return nil
	})
}

// setDelegateStatus plays a kubelet of the upgraded target.
func setDelegateStatus(t *testing.T, proxy *corev1.Pod, status corev1.PodStatus) {
	t.Helper()
	env.ChangeStatus(t, target, delegateOf(t, chaperonOf(proxy).Name), func(p *corev1.Pod) { p.Status = status })
}

// delegateOf waits until a delegate exists.
func delegateOf(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return env.WaitFor(t, target, &corev1.Pod{ObjectMeta: env.Meta(shop, name)}, func(*corev1.Pod) error { return nil })
}

// statusWith returns the status of a delegate that runs.
func statusWith(message string) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning, Message: message,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
	}
}

// followsItsDelegate gives a delegate another status, and waits until the same proxy has it.
func followsItsDelegate(t *testing.T, proxy *corev1.Pod, set func(*testing.T, *corev1.Pod, corev1.PodStatus)) {
	t.Helper()
	message, uid := string(uuid.NewUUID()), proxy.UID
	set(t, proxy, statusWith(message))
	env.WaitFor(t, source, proxy, func(p *corev1.Pod) error {
		if p.UID != uid || p.Status.Message != message || p.Spec.NodeName != virtualNode {
			return fmt.Errorf("UID %s, node %q, message %q", p.UID, p.Spec.NodeName, p.Status.Message)
		}
		return nil
	})
}

// placeNew creates a proxy, and waits until it is bound and shows its delegate's status.
func placeNew(t *testing.T, name string, set func(*testing.T, *corev1.Pod, corev1.PodStatus)) *corev1.Pod {
	t.Helper()
	proxy := env.Proxy(shop, name)
	proxy.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	env.Create(t, source, proxy)
	followsItsDelegate(t, proxy, set)
	return proxy
}

// waitGranted waits until a source has its RoleBinding in a namespace, and no rights in the whole cluster any more.
func waitGranted(t *testing.T, c *oldSource) {
	t.Helper()
	binding := &rbacv1.RoleBinding{ObjectMeta: env.Meta(shop, "multicluster-clustersource:"+c.name)}
	env.WaitFor(t, target, binding, func(*rbacv1.RoleBinding) error { return nil })
	env.WaitGone(t, target, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "multicluster-source:" + c.name},
	})
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(c.user)}}
	env.WaitFor(t, target, grant, func(*v1alpha1.SourceGrant) error { return nil })
}

// writesAllTheTime creates and deletes PodChaperons in dry runs until stop is called, which fails the test if one of
// them was refused.
func (c *oldSource) writesAllTheTime(t *testing.T) (stop func()) {
	t.Helper()
	writing, end := context.WithCancel(t.Context())
	refused := make(chan error, 1)
	go func() {
		defer close(refused)
		for writing.Err() == nil {
			err := c.client.Create(writing, c.chaperon("again", uuid.NewUUID()), client.DryRunAll)
			if err != nil && writing.Err() == nil {
				refused <- err
				return
			}
		}
	}()
	return func() {
		end()
		if err := <-refused; err != nil {
			t.Errorf("during the upgrade, the old source was refused: %v", err)
		}
	}
}

// writesCopies writes copies as the old source did.
func (c *oldSource) writesCopies(t *testing.T) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: c.copied("web")}
	service.Labels[prefix+"target-hash"] = targetHash
	service.Annotations[prefix+"is-delegate"] = ""
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: c.copied("web-1"), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels["kubernetes.io/service-name"] = "web"
	slice.Labels["endpointslice.kubernetes.io/managed-by"] = "multicluster-scheduler"
	slice.Labels[prefix+"target-hash"] = targetHash
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}}
	configMap := &corev1.ConfigMap{ObjectMeta: c.copied("web"), Data: map[string]string{"a": "b"}}
	for _, object := range []client.Object{service, slice, configMap, &corev1.Secret{ObjectMeta: c.copied("web")}} {
		env.Must(t, c.client.Create(t.Context(), object))
	}
	configMap.Data["a"] = "c"
	env.Must(t, c.client.Update(t.Context(), configMap))
	env.Must(t, c.client.Delete(t.Context(), slice))
}

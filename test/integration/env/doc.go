// Package env is the environment of the integration tests: real control planes, one etcd and one kube-apiserver per
// cluster, and the vocabulary in which all suites speak of them.
//
// There is no kubelet, no scheduler and no controller manager, so only the test and the parts under test change
// objects. Pods stay Pending until the test writes their status. Deleting a pod with a grace period leaves it
// Terminating until the test confirms. Namespaces have no default service account, and nothing is garbage collected.
// This makes every step of a test visible and repeatable. Behaviour that needs the rest of Kubernetes belongs to
// test/e2e.
//
// # Clusters
//
// [Main] is the body of a suite's TestMain. The set-up that it calls starts the clusters with [Start], because
// control planes take seconds to start; all tests of the suite share them, and each has namespaces of its own. A test
// that stops a control plane starts one for itself, also with [Start].
//
//	var source, target *env.Cluster
//
//	func TestMain(m *testing.M) {
//		env.Main(m, func(t env.T) {
//			clusters := env.Start(t, "source", "target")
//			source, target = clusters[0], clusters[1]
//		})
//	}
//
// Every function takes a [T], which a test and a set-up have: what goes wrong ends it, what was started stops with it.
//
// # Objects
//
// These functions take the cluster and the object. They act as the cluster's administrator.
//
//   - [Namespace] creates a namespace for a test, of the same name in several clusters.
//   - [Create] creates, and deletes at the end what other tests would see. [CreateForTest] deletes everything.
//     [Ensure] creates what does not exist yet, and leaves it to the other tests.
//   - [Get] and [Exists] read an object anew. [Change] and [ChangeStatus] read, change and write it.
//   - [Delete] deletes, [RemoveFinalizers] plays the controllers whose finalizers hold an object.
//   - [Proxy], [Chaperon], [VirtualNode] and [PodSpec] return objects to be created; [Bind] plays a scheduler.
//
// # Waiting
//
// No test sleeps. [WaitFor] waits for an object to become as a function wants it, [WaitGone] for its end,
// [WaitForEvent] for an event about it, and [Eventually] for everything else. When time is up they report the last
// thing that was wrong and with which object in which cluster. [Events] returns the events that exist already.
//
// # Logins
//
// Clients of the parts under test have the rights that a test gives them. [Cluster.User], [Cluster.Impersonate] and
// [Cluster.Token] return logins without rights, [Cluster.Grant] and [Cluster.BindRole] give these rights, [ClientFor]
// and [Kubeconfig] turn logins into clients and kubeconfigs. [Intercept] shows a test the requests of a login, and
// lets it answer them. [Journal] keeps what happened.
//
// # The chart
//
// [Render] renders the chart, or parts of it, and [Cluster.Install] creates the objects, so that tests run with the
// chart's roles and admission policy.
//
// # Targets
//
// [NewTarget] makes a (Cluster)Target that leads to a cluster. [Target.Engage] engages it with a registry, as
// pkg/connect/target does once the target is connected. [Target.Lose] has the source notice that its API server does
// not answer; the next Engage engages it anew, which is how a lost target returns. [Target.Disengage] ends the
// engagement.
//
// # Parts under test
//
// [Run] runs something until the test ends. [RunManager] runs a manager with the product's cache; a suite registers
// its parts there. Every suite has one file that makes the parts under test, environment_test.go, and the verbs that
// only this suite needs.
package env

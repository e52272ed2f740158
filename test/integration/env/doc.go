// Package env is the environment of the integration tests: real control planes, one etcd and one kube-apiserver per
// cluster, and the vocabulary that all suites share.
//
// There is no kubelet, no scheduler and no controller manager, so only the test and the parts under test change
// objects. Pods stay Pending until the test writes their status. Deleting a pod with a grace period leaves it
// Terminating until the test confirms. Namespaces have no default service account, and nothing is garbage collected.
// This makes every step of a test visible and repeatable. Behaviour that needs the rest of Kubernetes belongs to
// test/e2e.
//
// Functions that can fail take a [T], which tests and set-ups have. An error ends the test. [Must] does the same with
// other errors. Everything that such a function starts stops when the test ends.
//
// # Clusters
//
// [Main] is the body of a suite's TestMain. It calls a set-up, which starts the clusters with [Start]. Control planes
// take seconds to start, so all tests of a suite share them, and each test has namespaces of its own. A test that
// stops a control plane with [Cluster.Stop] starts one for itself. [StartBare] starts one without the project's custom
// resources. [Cluster.Fill] fills a cluster's etcd, and [Cluster.MakeRoom] makes room again. [Scheme] has the kinds of
// Kubernetes and of the project, for other clients and caches. Control planes end
// with the tests, also if these are killed or exceed their time-out.
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
// # Objects
//
// These functions take a cluster and an object, and act as the cluster's administrator.
//
//   - [Namespace] creates a namespace for a test, of the same name in several clusters. [Enabled] returns the labels of
//     a namespace whose pods may be elected.
//   - [Create] creates objects. At the end it deletes those that other tests would see. [CreateForTest] deletes all.
//     [Ensure] creates objects that do not exist yet, and leaves them to the other tests.
//   - [Get] and [Exists] read an object anew. [Change] and [ChangeStatus] read, change and write it.
//   - [Delete] deletes an object. [RemoveFinalizers] plays the controllers whose finalizers hold it.
//   - [Proxy], [Chaperon], [VirtualNode], [PodSpec] and [Meta] return objects, or parts of them, to be created.
//   - [Bind] plays a scheduler. [ForbidAll] has a quota refuse objects.
//   - [FieldOwner] is the field owner of changes by tests.
//
// # Waiting
//
// No test sleeps. [WaitFor] waits until a check accepts an object, [WaitGone] waits for the object's end, and
// [WaitForEvent] for an event about it. [Eventually] waits for everything else. When the time is up they report the
// last error, with the object and its cluster. [Events] returns the events of now, and [ExpectEqual] compares values.
//
// # Logins
//
// The parts under test have the rights that a test gives them.
//
//   - [Cluster.User], [Cluster.Impersonate] and [Cluster.Token] return logins without rights.
//     [ServiceAccountUser] returns the user name of a service account.
//   - [Cluster.Grant] and [Cluster.BindRole] give a user rights, in one namespace or in all. [Rule] makes a rule.
//   - [ClientFor] makes a client of a login. [Kubeconfig] makes a kubeconfig of logins, each a [Context].
//   - [Intercept] shows a test the requests of a login, and lets the test answer them. A [Journal] keeps
//     what a test records, in order.
//
// # The chart
//
// [Render] renders the chart, or parts of it, and [Cluster.Install] creates the objects, so that tests run with the
// chart's roles and admission policy. [Cluster.ServeWebhook] does so with the webhook of a target.
// [Cluster.InstallSourceRoles] installs the roles of sources only, and [Cluster.BindSource] gives them to a user.
// [Release] and the constants beside it are the names in the chart.
//
// # Targets
//
// [NewTarget] makes a [Target]: a (Cluster)Target that leads to a cluster. [Target.Engage] engages it, as
// pkg/connect/target does once the target is connected. [Target.Lose] has the source notice that the target's API
// server does not answer. The next Engage engages the target anew, as a target that was lost and answers again.
// [Target.Disengage] ends the engagement. [Cluster.Copied] is for a target in which the source reads by namespace.
//
// # Parts under test
//
// [Run] runs a part until the test ends. [RunManager] runs a manager where a suite registers its parts. Its cache is
// configured as the product's. [WaitForCache] waits until a cache has read everything. Each suite has a file
// environment_test.go. That file makes the parts under test, and has the verbs that only this suite needs.
package env

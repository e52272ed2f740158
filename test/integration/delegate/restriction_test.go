package delegate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestAPrivilegedDelegateIsRefusedWhateverTheNamespaceSays has the only ClusterSource of the suite. The pods of the
// other tests meet its level.
func TestAPrivilegedDelegateIsRefusedWhateverTheNamespaceSays(t *testing.T) {
	namespace := newNamespace(t, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"})
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	source.Spec.UserName, source.Spec.Delegates = "c1", podSecurity(v1alpha1.PodSecurityBaseline)
	before := create(t, namespace, privileged, named("before"))
	pod := waitForDelegate(t, before)

	env.Create(t, target, source)
	waitUntilKnown(t, source)
	c := create(t, namespace, privileged)
	expectRefused(t, c, `ClusterSource "c1"`, `"baseline:latest"`, `container "app" must not set`, "privileged=true")
	env.WaitForEvent(t, target, c, "DelegateRefused", `ClusterSource "c1"`)
	allowed := create(t, namespace, named("allowed"))
	waitForDelegate(t, allowed)
	if now := env.Get(t, target, pod.DeepCopy()); now.UID != pod.UID || now.DeletionTimestamp != nil {
		t.Errorf("the delegate from before the rules is deleted: %v", now.ObjectMeta)
	}

	t.Run("relaxed rules apply at once", func(t *testing.T) {
		env.Change(t, target, source, func(s *v1alpha1.ClusterSource) { s.Spec.Delegates = nil })
		waitUntilKnown(t, source)
		waitForDelegate(t, create(t, namespace, privileged, named("after")))
	})
}

func TestOnlyAllowedServiceAccountsOfASource(t *testing.T) {
	namespace := newNamespace(t, nil)
	env.Create(t, target,
		&corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "web")},
		&corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "admin")},
	)
	newSource(t, namespace, &v1alpha1.DelegateRules{ServiceAccountNames: []string{"web"}})
	for name, test := range map[string]struct {
		change  func(*corev1.PodSpec)
		refused string
	}{
		"allowed":    {change: func(s *corev1.PodSpec) { s.ServiceAccountName = "web" }},
		"deprecated": {change: func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "web" }},
		"other": {
			func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" }, `spec.serviceAccountName is "admin"`,
		},
		"other-by-the-deprecated-field": {
			func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "admin" }, `spec.serviceAccountName is "admin"`,
		},
		"none": {func(*corev1.PodSpec) {}, `spec.serviceAccountName is "default"`},
	} {
		c := create(t, namespace, named(name), func(c *v1alpha1.PodChaperon) { test.change(&c.Spec) })
		if test.refused == "" {
			waitForDelegate(t, c)
			continue
		}
		expectRefused(t, c, test.refused, `Source "c1"`, `allows only "web"`)
	}
}

// TestADelegateNeverRunsAsASource has a Source without rules.
func TestADelegateNeverRunsAsASource(t *testing.T) {
	namespace := newNamespace(t, nil)
	source := &v1alpha1.Source{ObjectMeta: env.Meta(namespace, "c3")}
	source.Spec.ServiceAccountName = "c3"
	env.Create(t, target, source, &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "c3")})
	waitUntilKnown(t, source)
	c := create(t, namespace, named("thief"), func(c *v1alpha1.PodChaperon) { c.Spec.ServiceAccountName = "c3" })
	expectRefused(t, c, `the account of Source "c3"`)
	waitForDelegate(t, create(t, namespace, named("honest")))
}

// TestADelegateThatIsMadeAgainIsChecked shows that a PodChaperon that changes without a revision changes no delegate,
// and that a delegate that is made again from it is checked.
func TestADelegateThatIsMadeAgainIsChecked(t *testing.T) {
	namespace := newNamespace(t, nil)
	newSource(t, namespace, podSecurity(v1alpha1.PodSecurityBaseline))
	c := create(t, namespace)
	pod := waitForDelegate(t, c)
	runDelegate(t, c, pod)
	env.Get(t, target, pod)

	resize := func(c *v1alpha1.PodChaperon) {
		c.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	}
	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) { resize(c); privileged(c) })
	expectUnchanged(t, c, pod)

	env.Delete(t, target, pod)
	env.WaitFor(t, target, c, delegateIs(v1alpha1.ReasonDelegateTerminating))
	confirmDeletion(t, pod)
	env.WaitFor(t, target, c, delegateIs(v1alpha1.ReasonDelegateGone))
	reconcileLater(t, c, 3*time.Minute)
	if env.Exists(t, target, pod) {
		t.Fatal("the delegate was made again, although it breaks a rule now")
	}
	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) { c.Spec = env.PodSpec(); resize(c) })
	reconcileLater(t, c, 3*time.Minute)
	again := waitForDelegate(t, c)
	if got := again.Spec.Containers[0].Resources.Requests.Cpu().Value(); got != 3 || again.UID == pod.UID {
		t.Errorf("delegate %s with %d CPUs, want another one with 3", again.UID, got)
	}
}

// TestEphemeralContainersAreChecked shows that a delegate gets no ephemeral containers that break a rule.
func TestEphemeralContainersAreChecked(t *testing.T) {
	debug := func(c *v1alpha1.PodChaperon) {
		c.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "debug", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
				TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullAlways,
			},
		}}
	}
	namespace := newNamespace(t, nil)
	newSource(t, namespace, podSecurity(v1alpha1.PodSecurityBaseline))
	expectRefused(t, create(t, namespace, debug, named("from-the-start")), "ephemeralContainers")

	c := create(t, namespace)
	pod := waitForDelegate(t, c)
	runDelegate(t, c, pod)
	env.Get(t, target, pod)
	env.Change(t, target, c, debug)
	expectUnchanged(t, c, pod)
	env.Change(t, target, c, revise(1))
	waitForChanges(t, c, corev1.ConditionFalse, "privileged")
	if got := env.Get(t, target, pod); len(got.Spec.EphemeralContainers) != 0 {
		t.Errorf("ephemeral containers %v", got.Spec.EphemeralContainers)
	}
}

// TestTheManagerChangesDelegatesButNotTheirStatus checks the rights that the chart gives: to read the rules, even
// without the controller of sources, and to change delegates.
func TestTheManagerChangesDelegatesButNotTheirStatus(t *testing.T) {
	const user = "manager"
	target.Install(t, env.Render(t, env.Release, "--show-only", "templates/rbac/delegates.yaml",
		"--set", "sourceController.enabled=false"), user)
	namespace := newNamespace(t, nil)
	pod := waitForDelegate(t, create(t, namespace))
	manager := env.ClientFor(t, target.Impersonate(user))
	env.Eventually(t, func(ctx context.Context) error {
		if err := manager.List(ctx, &v1alpha1.ClusterSourceList{}); err != nil {
			return err
		}
		return manager.List(ctx, &v1alpha1.SourceList{})
	})
	patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
	for _, subresource := range []string{"resize", "ephemeralcontainers"} {
		env.Must(t, manager.SubResource(subresource).Patch(t.Context(), pod, patch))
	}
	env.Must(t, manager.Patch(t.Context(), pod, patch))
	if err := manager.Status().Patch(t.Context(), pod, patch); !apierrors.IsForbidden(err) {
		t.Errorf("patching the status of a delegate: %v, want Forbidden", err)
	}
}

func TestInvalidRulesAreNotStored(t *testing.T) {
	namespace := newNamespace(t, nil)
	for name, test := range map[string]struct {
		rules map[string]any
		field string // "" means that the rules are valid
	}{
		"valid rules": {map[string]any{
			"serviceAccountNames": []any{"default", "web.1"},
			"podSecurity":         map[string]any{"level": "restricted", "version": "v1.34"},
		}, ""},
		"a level only":       {map[string]any{"podSecurity": map[string]any{"level": "privileged"}}, ""},
		"no rule":            {map[string]any{}, "delegates"},
		"a rule with a typo": {map[string]any{"serviceAccounts": []any{"web"}}, "delegates"},
		"no level": {
			map[string]any{"podSecurity": map[string]any{"version": "v1.34"}}, "podSecurity.level",
		},
		"a level that is none": {
			map[string]any{"podSecurity": map[string]any{"level": "strict"}}, "podSecurity.level",
		},
		"an empty level": {map[string]any{"podSecurity": map[string]any{"level": ""}}, "podSecurity.level"},
		"a level in capitals": {
			map[string]any{"podSecurity": map[string]any{"level": "Baseline"}}, "podSecurity.level",
		},
		"no accounts":           {map[string]any{"serviceAccountNames": []any{}}, "serviceAccountNames"},
		"an empty account":      {map[string]any{"serviceAccountNames": []any{""}}, "serviceAccountNames[0]"},
		"an account with blank": {map[string]any{"serviceAccountNames": []any{"web "}}, "serviceAccountNames[0]"},
		"an account twice":      {map[string]any{"serviceAccountNames": []any{"web", "web"}}, "serviceAccountNames[1]"},
		"a version that is none": {
			map[string]any{"podSecurity": map[string]any{"level": "baseline", "version": "1.34"}},
			"podSecurity.version",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{"Source", "ClusterSource"} {
				object := &unstructured.Unstructured{Object: map[string]any{
					"spec": map[string]any{"userName": "c1", "delegates": test.rules},
				}}
				object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
				object.SetName("rules")
				if kind == "Source" {
					object.SetNamespace(namespace)
				}
				err := target.Client.Create(t.Context(), object, client.DryRunAll)
				if test.field == "" && err != nil ||
					test.field != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.field)) {
					t.Errorf("creating a %s: %v, want an error about %q", kind, err, test.field)
				}
			}
		})
	}
}

// newSource creates a Source with rules, and waits until the manager knows them.
func newSource(t *testing.T, namespace string, rules *v1alpha1.DelegateRules) {
	t.Helper()
	source := &v1alpha1.Source{ObjectMeta: env.Meta(namespace, "c1")}
	source.Spec.UserName, source.Spec.Delegates = "c1", rules
	env.Create(t, target, source)
	waitUntilKnown(t, source)
}

// waitUntilKnown waits until the manager's cache has this version of an object.
func waitUntilKnown(t *testing.T, object client.Object) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		cached := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the same type
		if err := managerCache.Get(ctx, client.ObjectKeyFromObject(object), cached); err != nil {
			return err
		}
		if cached.GetResourceVersion() != object.GetResourceVersion() {
			return fmt.Errorf("the cache has version %s", cached.GetResourceVersion())
		}
		return nil
	})
}

// expectRefused waits until the delegate is refused with all texts, and checks that no delegate was created.
func expectRefused(t *testing.T, c *v1alpha1.PodChaperon, texts ...string) {
	t.Helper()
	env.WaitFor(t, target, c, delegateIs(v1alpha1.ReasonDelegateRefused))
	for _, text := range texts {
		if message := c.Status.Conditions[0].Message; !strings.Contains(message, text) {
			t.Errorf("message %q lacks %q", message, text)
		}
	}
	if env.Exists(t, target, &corev1.Pod{ObjectMeta: env.Meta(c.Namespace, c.Name)}) {
		t.Errorf("the refused delegate %s was created", c.Name)
	}
}

// expectUnchanged reconciles a PodChaperon and checks that its delegate's spec is as before.
func expectUnchanged(t *testing.T, c *v1alpha1.PodChaperon, before *corev1.Pod) {
	t.Helper()
	reconcileLater(t, c, 0)
	after := env.Get(t, target, before.DeepCopy())
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.UID != before.UID {
		t.Errorf("delegate %s, was %s; spec (-before +after):\n%s", after.UID, before.UID, diff)
	}
}

func podSecurity(level v1alpha1.PodSecurityLevel) *v1alpha1.DelegateRules {
	return &v1alpha1.DelegateRules{PodSecurity: &v1alpha1.PodSecurityRule{Level: level}}
}

func privileged(c *v1alpha1.PodChaperon) {
	c.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
}

func named(name string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Name = name }
}

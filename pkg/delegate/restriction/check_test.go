package restriction

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestLevels(t *testing.T) {
	const everywhere, baseline, restricted, nowhere = "", "baseline", "restricted", "privileged"
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		// forbidden is the laxest level that forbids the pod: everywhere means that all levels allow it.
		forbidden string
		message   string
	}{
		"a pod that drops everything": {func(*corev1.Pod) {}, everywhere, ""},
		"host network": {
			func(p *corev1.Pod) { p.Spec.HostNetwork = true }, baseline, "hostNetwork=true",
		},
		"host processes":   {func(p *corev1.Pod) { p.Spec.HostPID = true }, baseline, "hostPID=true"},
		"host IPC":         {func(p *corev1.Pod) { p.Spec.HostIPC = true }, baseline, "hostIPC=true"},
		"a privileged app": {inApp(privileged), baseline, "securityContext.privileged=true"},
		"a privileged init": {
			inInit(privileged), baseline, `container "init" must not set securityContext.privileged`,
		},
		"a privileged debug": {
			inDebug(privileged), baseline, `container "debug" must not set securityContext.privileged`,
		},
		"a host port":      {hostPort, baseline, "hostPort"},
		"a host path":      {hostPath, baseline, "hostPath"},
		"an unsafe sysctl": {sysctl, baseline, "kernel.msgmax"},
		"a Windows HostProcess": {
			inApp(func(c *corev1.SecurityContext) {
				c.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: ptr.To(true)}
			}), baseline, "hostProcess=true",
		},
		"NET_ADMIN": {inApp(adding("NET_ADMIN")), baseline, "NET_ADMIN"},
		"CHOWN":     {inApp(adding("CHOWN")), restricted, "CHOWN"},
		"NET_BIND_SERVICE": {
			inApp(adding("NET_BIND_SERVICE")), everywhere, "",
		},
		"no dropped capabilities": {
			inApp(func(c *corev1.SecurityContext) { c.Capabilities = nil }), restricted, `capabilities.drop=["ALL"]`,
		},
		"seccomp unconfined": {
			inApp(seccomp(corev1.SeccompProfileTypeUnconfined)), baseline, "Unconfined",
		},
		"no seccomp profile": {
			func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile = nil }, restricted, "seccompProfile.type",
		},
		"AppArmor unconfined, by annotation": {
			func(p *corev1.Pod) {
				p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}
			}, baseline, "apparmor",
		},
		"privilege escalation": {
			inApp(func(c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil }), restricted,
			"allowPrivilegeEscalation=false",
		},
		"a process of root": {
			func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil }, restricted, "runAsNonRoot=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := strictPod()
			test.change(pod)
			for _, level := range []string{nowhere, baseline, restricted} {
				rules := &v1alpha1.DelegateRules{
					PodSecurity: &v1alpha1.PodSecurityRule{Level: v1alpha1.PodSecurityLevel(level)},
				}
				refused := test.forbidden == level || test.forbidden == baseline && level == restricted
				if refused {
					expectRefused(t, rules, pod, `ClusterSource "c1"`, `"`+level+`:latest"`, test.message)
				} else {
					expectAllowed(t, rules, pod)
				}
			}
		})
	}
}

func TestTheVersionOfALevelCounts(t *testing.T) {
	// Version 1.18 of "restricted" did not ask for dropped capabilities yet.
	pod := strictPod()
	pod.Spec.Containers[0].SecurityContext.Capabilities = nil
	expectAllowed(t, podSecurity(v1alpha1.PodSecurityRestricted, "v1.18"), pod)
	expectRefused(t, podSecurity(v1alpha1.PodSecurityRestricted, "v1.30"), pod, `"restricted:v1.30"`)
	expectRefused(t, podSecurity(v1alpha1.PodSecurityRestricted, "v1.999"), pod, `"restricted:v1.999"`)
}

func TestOnlyAllowedServiceAccounts(t *testing.T) {
	only := func(names ...string) *v1alpha1.DelegateRules {
		return &v1alpha1.DelegateRules{ServiceAccountNames: names}
	}
	for name, test := range map[string]struct {
		rules   *v1alpha1.DelegateRules
		change  func(*corev1.PodSpec)
		refused string
	}{
		"no rule about service accounts": {
			podSecurity(v1alpha1.PodSecurityBaseline, ""),
			func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" }, "",
		},
		"an allowed one": {only("web", "api"), func(s *corev1.PodSpec) { s.ServiceAccountName = "api" }, ""},
		"another one": {
			only("web", "api"), func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" },
			`spec.serviceAccountName is "admin", but ClusterSource "c1" (spec.delegates.serviceAccountNames) ` +
				`allows only "web", "api"`,
		},
		"none, where default is allowed":     {only("default"), func(*corev1.PodSpec) {}, ""},
		"none, where default is not allowed": {only("web"), func(*corev1.PodSpec) {}, `is "default"`},
		"another one by the deprecated field": {
			only("default"), func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "admin" }, `is "admin"`,
		},
		"an allowed one in the deprecated field only, which does not count": {
			only("web"), func(s *corev1.PodSpec) {
				s.ServiceAccountName, s.DeprecatedServiceAccount = "admin", "web"
			}, `is "admin"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := strictPod()
			test.change(&pod.Spec)
			if test.refused == "" {
				expectAllowed(t, test.rules, pod)
			} else {
				expectRefused(t, test.rules, pod, test.refused)
			}
		})
	}
	expectRefused(t, &v1alpha1.DelegateRules{ServiceAccountNames: []string{}}, strictPod(), `is "default"`)
}

func TestAnInvalidRuleNeverAllows(t *testing.T) {
	for name, test := range map[string]struct {
		rules   *v1alpha1.DelegateRules
		message string
	}{
		"a level of another version": {podSecurity("paranoid", ""), `podSecurity.level is "paranoid": must be one of`},
		"no level":                   {podSecurity("", ""), `podSecurity.level is ""`},
		"a level in capitals":        {podSecurity("Privileged", ""), `podSecurity.level is "Privileged"`},
		"a version that is none":     {podSecurity(v1alpha1.PodSecurityPrivileged, "1.30"), `version is "1.30"`},
	} {
		t.Run(name, func(t *testing.T) {
			expectRefused(
				t,
				test.rules,
				strictPod(),
				`ClusterSource "c1" is invalid and allows no delegate`,
				test.message,
			)
		})
	}
}

func TestAllRulesCountAndAllThatAreBrokenAreNamed(t *testing.T) {
	pod := strictPod()
	pod.Spec.HostNetwork = true
	rules := []Rule{
		{`ClusterSource "lax"`, podSecurity(v1alpha1.PodSecurityPrivileged, "")},
		{`ClusterSource "strict"`, podSecurity(v1alpha1.PodSecurityBaseline, "")},
		{`Source "picky"`, &v1alpha1.DelegateRules{ServiceAccountNames: []string{"web"}}},
	}
	err := New(nil, "").Check(rules, pod)
	for _, want := range []string{`ClusterSource "strict"`, "hostNetwork", `Source "picky"`, `"default"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "lax") {
		t.Errorf("error %v names a rule that is not broken", err)
	}
}

func expectAllowed(t *testing.T, rules *v1alpha1.DelegateRules, pod *corev1.Pod) {
	t.Helper()
	if err := New(nil, "").Check([]Rule{{`ClusterSource "c1"`, rules}}, pod); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func expectRefused(t *testing.T, rules *v1alpha1.DelegateRules, pod *corev1.Pod, texts ...string) {
	t.Helper()
	err := New(nil, "").Check([]Rule{{`ClusterSource "c1"`, rules}}, pod)
	refused := (*RefusedError)(nil)
	if !errors.As(err, &refused) {
		t.Fatalf("error %v, want a refusal", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q lacks %q", err, text)
		}
	}
}

func podSecurity(level v1alpha1.PodSecurityLevel, version string) *v1alpha1.DelegateRules {
	return &v1alpha1.DelegateRules{PodSecurity: &v1alpha1.PodSecurityRule{Level: level, Version: version}}
}

// strictPod returns a pod that meets all levels.
func strictPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-abcde"},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   ptr.To(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "app", SecurityContext: strictContext()}},
		},
	}
}

func strictContext() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func inApp(change func(*corev1.SecurityContext)) func(*corev1.Pod) {
	return func(p *corev1.Pod) { change(p.Spec.Containers[0].SecurityContext) }
}

func inInit(change func(*corev1.SecurityContext)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", SecurityContext: strictContext()}}
		change(p.Spec.InitContainers[0].SecurityContext)
	}
}

func inDebug(change func(*corev1.SecurityContext)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
			{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					Name:            "debug",
					SecurityContext: strictContext(),
				},
			},
		}
		change(p.Spec.EphemeralContainers[0].SecurityContext)
	}
}

func privileged(c *corev1.SecurityContext) { c.Privileged = ptr.To(true) }

func adding(capability corev1.Capability) func(*corev1.SecurityContext) {
	return func(c *corev1.SecurityContext) { c.Capabilities.Add = []corev1.Capability{capability} }
}

func seccomp(kind corev1.SeccompProfileType) func(*corev1.SecurityContext) {
	return func(c *corev1.SecurityContext) { c.SeccompProfile = &corev1.SeccompProfile{Type: kind} }
}

func hostPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
}

func hostPath(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{
		{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
	}
}

func sysctl(p *corev1.Pod) {
	p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
}

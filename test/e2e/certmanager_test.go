//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	release                = "multicluster-scheduler"
	releaseNamespace       = "admiralty"
	webhookName            = release + "-webhook"
	certManagerSecret      = webhookName + "-tls"
	authoritySecret        = webhookName + "-authority"
	selfManagedSecret      = webhookName + "-certificate"
	certificateDialTimeout = 5 * time.Second
)

// The test uses the target c2, because no other test creates elected pods there. Sources retry what its other webhook
// does not answer.
func TestTheWebhooksCertificateMayComeFromCertManager(t *testing.T) {
	w := setUp(t)
	w.c2.kubectl(
		t,
		"label",
		"namespace",
		w.namespace,
		v1alpha1.LabelEnabledNamespace+"="+v1alpha1.LabelEnabledNamespaceValue,
	)
	w.c2.runCertManager(t)

	w.c2.upgrade(t, "certManager.enabled=null") // where it is installed
	w.c2.eventuallyServes(t, certManagerSecret)
	if err := w.c2.admits(t.Context(), w.pod("issued", podTemplate("issued"))); err != nil {
		t.Errorf("with cert-manager's certificate: %v", err)
	}

	t.Run("renewed, while pods are admitted, without a restart", func(t *testing.T) {
		first, managers := w.c2.secret(t, certManagerSecret), w.c2.managers(t)
		refused := w.c2.keepAdmitting(t, w.pod("meanwhile", podTemplate("meanwhile")))
		w.c2.kubectl(t, "-n", releaseNamespace, "delete", "secret", certManagerSecret)
		eventually(t, "cert-manager to issue another certificate", func(ctx context.Context) error {
			secret := &corev1.Secret{}
			if err := w.c2.Get(ctx, client.ObjectKeyFromObject(first), secret); err != nil {
				return err
			}
			if bytes.Equal(secret.Data[corev1.TLSCertKey], first.Data[corev1.TLSCertKey]) {
				return errors.New("it is the same")
			}
			return nil
		})
		// A kubelet looks into Secrets every minute or so, and when the pod changes.
		w.c2.kubectl(t, "-n", releaseNamespace, "annotate", "pods", "-l", manager, "e2e/look=now")
		w.c2.eventuallyServes(t, certManagerSecret)
		if err := refused(); err != nil {
			t.Errorf("a pod created during the renewal: %v", err)
		}
		for uid, restarts := range w.c2.managers(t) {
			if before, ok := managers[uid]; !ok || before != restarts {
				t.Errorf("a manager was restarted or replaced: before %v, after %v", managers, w.c2.managers(t))
			}
		}
	})

	w.c2.upgrade(t, "certManager.enabled=false")
	w.c2.eventuallyServes(t, selfManagedSecret)
	if err := w.c2.admits(t.Context(), w.pod("self", podTemplate("self"))); err != nil {
		t.Errorf("with a certificate of the manager's own again: %v", err)
	}
}

// kubectl runs kubectl in the cluster, in the default namespace.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runKubectl(t.Context(), append([]string{"--context", c.name}, args...)...)
	if err != nil {
		t.Fatalf("kubectl --context %s %s: %v\n%s", c.name, strings.Join(args, " "), err, out)
	}
	return out
}

// upgrade changes one value of the release and waits until all managers run with it.
func (c *cluster) upgrade(t *testing.T, set string) {
	t.Helper()
	c.upgradeIn(t.Context(), t, set)
}

func (c *cluster) upgradeIn(ctx context.Context, t *testing.T, set string) {
	t.Helper()
	if out, err := run(ctx, "helm", "--kube-context", c.name, "-n", releaseNamespace, "upgrade", release,
		"charts/multicluster-scheduler", "--reuse-values", "--set", set, "--hide-notes"); err != nil {
		t.Fatalf("helm upgrade --set %s: %v\n%s", set, err, out)
	}
	if out, err := runKubectl(
		ctx,
		"--context",
		c.name,
		"-n",
		releaseNamespace,
		"rollout",
		"status",
		"deployment",
		"-l",
		manager,
		"--timeout="+patience.String(),
	); err != nil {
		t.Fatalf("after helm upgrade --set %s the managers did not become ready: %v\n%s", set, err, out)
	}
}

// runCertManager installs cert-manager: its custom resource definitions, and its controllers outside the cluster. When
// the test ends, it restores the release and removes cert-manager.
func (c *cluster) runCertManager(t *testing.T) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(c.kubectl(t, "config", "view", "--raw", "--minify")), 0o600); err != nil {
		t.Fatal(err)
	}
	module := moduleFolder(t, "../certmanager", "github.com/cert-manager/cert-manager")
	crds := filepath.Join(module, "deploy", "crds")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		c.upgradeIn(ctx, t, "certManager.enabled=false") // helm cannot delete objects whose kinds do not exist any more
		if out, err := runKubectl(ctx, "--context", c.name, "delete", "-f", crds, "--ignore-not-found"); err != nil {
			t.Errorf("removing cert-manager: %v\n%s", err, out)
		}
		if out, err := runKubectl(ctx, "--context", c.name, "-n", releaseNamespace, "delete", "secret",
			certManagerSecret, authoritySecret, "--ignore-not-found"); err != nil {
			t.Errorf("removing cert-manager's Secrets: %v\n%s", err, out)
		}
		c.upgradeIn(ctx, t, "certManager.enabled=null")
	})
	c.kubectl(t, "apply", "--server-side", "-f", crds)
	c.kubectl(t, "wait", "--for=condition=Established", "-f", crds)

	out := &bytes.Buffer{}
	program := exec.CommandContext(t.Context(), localFile("bin/cert-manager"), kubeconfig)
	program.Stdout, program.Stderr = out, out
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGTERM) }
	program.WaitDelay = patience
	if err := program.Start(); err != nil {
		t.Fatalf("starting cert-manager (make test-e2e builds it): %v", err)
	}
	t.Cleanup(func() { // The test's context has ended by now.
		err := program.Wait()
		if t.Failed() {
			t.Logf("cert-manager ended with %v and said:\n%s", err, out)
		}
	})
}

// moduleFolder returns the folder of a Go module that the module in another folder requires.
func moduleFolder(t *testing.T, in, module string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = in
	out, err := list.Output()
	if err != nil {
		t.Fatalf("finding the module %s (make test-e2e-long downloads it): %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

func (c *cluster) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func (c *cluster) managerPods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{"app.kubernetes.io/name": release}
	err := c.List(ctx, pods, client.InNamespace(releaseNamespace), labels)
	return pods.Items, err
}

// managers returns how often each manager was restarted.
func (c *cluster) managers(t *testing.T) map[types.UID]int32 {
	t.Helper()
	pods, err := c.managerPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	restarts := map[types.UID]int32{}
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			restarts[pod.UID] += status.RestartCount
		}
	}
	return restarts
}

func (c *cluster) eventuallyServes(t *testing.T, secretName string) {
	t.Helper()
	eventually(t, "every manager to serve the certificate of Secret "+secretName, func(ctx context.Context) error {
		return c.serves(ctx, secretName)
	})
}

// serves reports whether each manager serves the certificate of the Secret, and whether API servers trust it.
func (c *cluster) serves(ctx context.Context, secretName string) error {
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: secretName}, secret); err != nil {
		return err
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return fmt.Errorf("Secret %s has no certificate", secretName)
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, configuration := range []client.Object{mutating, validating} {
		if err := c.Get(ctx, client.ObjectKey{Name: release}, configuration); err != nil {
			return err
		}
	}
	roots := x509.NewCertPool()
	authority := mutating.Webhooks[0].ClientConfig.CABundle
	if !roots.AppendCertsFromPEM(authority) || !bytes.Equal(authority, validating.Webhooks[0].ClientConfig.CABundle) {
		return errors.New("a webhook configuration has no authority")
	}
	pods, err := c.managerPods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		served, err := dial(ctx, pod.Status.PodIP, roots)
		if err != nil {
			return fmt.Errorf("connecting to %s: %w", pod.Name, err)
		}
		if !bytes.Equal(served.Raw, block.Bytes) {
			return fmt.Errorf("%s serves another certificate, number %s", pod.Name, served.SerialNumber)
		}
	}
	return nil
}

// dial returns the webhook's certificate. It fails if a client that trusts the roots does not accept the certificate.
func dial(ctx context.Context, podIP string, roots *x509.CertPool) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, certificateDialTimeout)
	defer cancel()
	dialer := &tls.Dialer{
		Config: &tls.Config{RootCAs: roots, ServerName: webhookName + "." + releaseNamespace + ".svc"},
	}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(podIP, "9443"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// admits reports whether the pod would become a proxy.
func (c *cluster) admits(ctx context.Context, pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if pod.Spec.SchedulerName != v1alpha1.SchedulerName {
		return fmt.Errorf("it is for scheduler %q: the webhook did not see it", pod.Spec.SchedulerName)
	}
	return nil
}

// keepAdmitting asks for admission again and again. The function returned stops this and returns the first error.
func (c *cluster) keepAdmitting(t *testing.T, pod *corev1.Pod) func() error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		var first error
		for ctx.Err() == nil {
			if err := c.admits(ctx, pod); first == nil && ctx.Err() == nil {
				first = err
			}
		}
		result <- first
	}()
	return func() error {
		cancel()
		return <-result
	}
}

// Command cert-manager runs cert-manager's own controllers in one process outside the cluster, against the current
// context of a kubeconfig.
//
// These are the controllers for Certificates, for Issuers of the kinds SelfSigned and CA, and the injector of
// certificate authorities into webhook configurations. A machine without a registry cannot pull cert-manager's
// images, but it can fetch the code. cert-manager's own webhook is left out: it only refuses wrong objects. The cluster
// must have the custom resource definitions of the module's folder deploy/crds.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

const (
	workers = 1
	backoff = time.Hour // cert-manager's own default
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cert-manager KUBECONFIG")
		os.Exit(2)
	}
	log := textlogger.NewLogger(textlogger.NewConfig())
	ctrl.SetLogger(log)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), log), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	group, ctx := errgroup.WithContext(ctx)
	if err := issue(ctx, group, kubeconfig); err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	if err := inject(ctx, group, kubeconfig); err != nil {
		return fmt.Errorf("starting the injector: %w", err)
	}
	return group.Wait()
}

// issue starts every controller that the imports above have registered.
func issue(ctx context.Context, group *errgroup.Group, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig,
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: backoff,
			CertificateRequestMaximumBackoffDuration: 32 * backoff,
		},
	})
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return fmt.Errorf("making controller %q: %w", name, err)
		}
		group.Go(func() error { return c.Run(workers, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

// inject starts the injector, which writes certificate authorities into webhook configurations.
func inject(ctx context.Context, group *errgroup.Group, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "cainjector"
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, certmanagerv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
		},
	})
	if err != nil {
		return err
	}
	group.Go(func() error { return mgr.Start(ctx) })
	return nil
}

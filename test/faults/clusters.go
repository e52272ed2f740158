package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	source, target   = "c1", "c2"
	managerNamespace = "admiralty"
	managerName      = "multicluster-scheduler-controller-manager"
	managerProgram   = "multicluster-scheduler"
)

// cluster is one of the clusters that `make clusters-up` started.
type cluster struct {
	client.Client
	name   string
	config *rest.Config
}

// open connects to the cluster of a context in .local/kubeconfig. The program runs in the root of the checkout.
func open(name string) (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: filepath.Join(".local", "kubeconfig")},
		&clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster %s (run `make clusters-up deploy`): %w", name, err)
	}
	config.QPS = -1
	config.Timeout = requestTimeout
	log.SetLogger(logr.Discard()) // else controller-runtime complains
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	watched := rest.CopyConfig(config)
	watched.Timeout = 0
	return &cluster{Client: c, name: name, config: watched}, nil
}

const requestTimeout = 5 * time.Second

// run runs a program of .local/bin, and returns what it prints.
func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(".local", "bin", program), args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+filepath.Join(".local", "kubeconfig"),
		"PATH="+filepath.Join(".local", "bin")+":"+os.Getenv("PATH"))
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s",
			program, strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// clusters runs the program that runs the clusters.
func clusters(ctx context.Context, args ...string) error {
	_, err := run(ctx, "clusters", args...)
	return err
}

// kubectl runs kubectl in the source, in the namespace of the test, as a user does.
func (l *lab) kubectl(ctx context.Context, args ...string) error {
	_, err := l.kubectlOutput(ctx, source, args...)
	return err
}

func (l *lab) kubectlOutput(ctx context.Context, name string, args ...string) (string, error) {
	return run(ctx, "kubectl", append([]string{"--context", name, "--namespace", l.namespace,
		"--request-timeout=5s"}, args...)...)
}

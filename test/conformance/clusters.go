package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	source, target = "c1", "c2"
	virtualPrefix  = "admiralty-"
	requestTimeout = 30 * time.Second
	// patience is the time after which a state is not waited for any longer.
	patience  = 3 * time.Minute
	pollEvery = 250 * time.Millisecond
)

// cluster is one of the clusters that `make clusters-up` started.
type cluster struct {
	client.WithWatch
	name    string
	config  *rest.Config
	version string
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
	log.SetLogger(logr.Discard()) // else controller-runtime complains
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	version, err := asked.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its version: %w", name, err)
	}
	return &cluster{WithWatch: c, name: name, config: config, version: version.GitVersion}, nil
}

// kubectl runs kubectl with the given standard input, and returns all that it prints.
func kubectl(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(".local", "bin", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(".local", "kubeconfig"))
	out := &bytes.Buffer{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	err := cmd.Run()
	printed := logged.ReplaceAllString(out.String(), "")
	if err != nil {
		return printed, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(printed))
	}
	return printed, nil
}

// logged are lines that kubectl logs about itself: that a connection was closed before a ping was sent, say.
var logged = regexp.MustCompile(`(?m)^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\.go:\d+\] .*\n?`)

// until calls check until it returns nil. When time is up, it returns the last error of check.
func until(ctx context.Context, lasts time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	last := errors.New("nothing was asked yet")
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", lasts, last)
		case <-ticker.C:
		}
	}
}

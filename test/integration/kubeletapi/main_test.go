package kubeletapi

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

var source, target *apiserver.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return 0, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return 0, err
	}
	var group errgroup.Group
	for name, cluster := range map[string]**apiserver.Cluster{"source": &source, "target": &target} {
		group.Go(func() (err error) {
			*cluster, err = apiserver.New(name, apiserver.Options{Scheme: scheme})
			return err
		})
	}
	defer func() {
		for _, cluster := range []*apiserver.Cluster{source, target} {
			if cluster != nil {
				_ = cluster.Stop()
			}
		}
	}()
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

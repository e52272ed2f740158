package cli

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// c1 and c2 are shared: tests run one after the other, with names of their own.
var c1, c2 *apiserver.Cluster

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return 0, err
	}
	if c1, err = apiserver.New("c1", apiserver.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c1.Stop()) }()
	if c2, err = apiserver.New("c2", apiserver.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c2.Stop()) }()
	return m.Run(), nil
}

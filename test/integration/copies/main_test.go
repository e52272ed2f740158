package copies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// target is a target cluster with the chart's roles and policy; the tests share it.
var target *apiserver.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	log.SetLogger(logr.Discard())
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		return 0, err
	}
	if target, err = apiserver.New("target", apiserver.Options{Scheme: s}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.Stop()) }()
	ctx := context.Background()
	if err := target.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: admiralty}}); err != nil {
		return 0, err
	}
	if err := installAll(ctx, target.Client); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

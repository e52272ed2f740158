package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// cluster is shared: tests run one after the other, each with its own controllers and names.
var cluster *apiserver.Cluster

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
	if cluster, err = apiserver.New("target", apiserver.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	for name, resource := range map[string]string{sourceRole: "podchaperons", viewerRole: "clustersummaries"} {
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{resource}, Verbs: []string{"list"}}},
		}
		if err := cluster.Client.Create(context.Background(), role); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

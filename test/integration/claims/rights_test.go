package claims

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const (
	// user is the manager's name in the source, and the source's in targets.
	user      = "multicluster-scheduler"
	release   = "multicluster-scheduler"
	admiralty = "admiralty"
)

// addUsers gives the manager the rights in the source, and the source those in targets, that the chart gives them.
func addUsers(ctx context.Context) error {
	shared.users, shared.ids = map[*apiserver.Cluster]*rest.Config{}, map[string]string{}
	roles, err := render(ctx)
	if err != nil {
		return err
	}
	for cluster, id := range map[*apiserver.Cluster]string{shared.source: clusterID, shared.c2: "c2-id", shared.c3: "c3-id"} {
		config, err := cluster.User(user)
		if err != nil {
			return err
		}
		shared.users[cluster], shared.ids[config.Host] = config, id
		if err := cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: admiralty}}); err != nil {
			return err
		}
		for _, role := range roles {
			if err := install(ctx, cluster, role.DeepCopy()); err != nil {
				return fmt.Errorf("installing %s %q: %w", role.GetKind(), role.GetName(), err)
			}
		}
	}
	return nil
}

// render returns what the chart says of rights where the source is no target.
func render(ctx context.Context) ([]*unstructured.Unstructured, error) {
	root := filepath.Join("..", "..", "..")
	helm := filepath.Join(root, ".local", "bin", "helm")
	if _, err := os.Stat(helm); err != nil {
		return nil, fmt.Errorf("these tests render the chart and helm is missing: run `make test-integration`, which builds it: %w", err)
	}
	command := exec.CommandContext(ctx, helm, "template", release, filepath.Join(root, "charts", release), "--namespace", admiralty,
		"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false")
	command.Stderr = os.Stderr
	rendered, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding the chart: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// install creates an object of the chart. Roles are bound: the manager's parts in the source, where no controller adds them up, and a source's in targets.
func install(ctx context.Context, cluster *apiserver.Cluster, object *unstructured.Unstructured) error {
	if err := cluster.Client.Create(ctx, object); err != nil {
		return err
	}
	name := object.GetName()
	isPart := object.GetLabels()["admiralty.io/aggregate-to-controller-manager"] == "true"
	isSources := name == release+"-source" || name == release+"-cluster-summary-viewer"
	if cluster == shared.source && !isPart || cluster != shared.source && !isSources {
		return nil
	}
	return cluster.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-of-user"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

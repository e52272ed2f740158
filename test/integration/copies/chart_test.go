package copies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	release    = "multicluster-scheduler"
	admiralty  = "admiralty"
	sourceRole = release + "-source"
	manager    = release + "-controller-manager"
)

// installAll makes the objects of the chart that say who may do what.
func installAll(ctx context.Context, c client.Client) error {
	return install(ctx, c, manager, "template", release, "--show-only", "templates/policy.yaml", "--show-only", "templates/rbac/*.yaml",
		"--set", "rbac.selfTarget=false")
}

// installNarrow gives another release's manager its rights on copies, on Secrets in that namespace and the release's own only. It returns its name.
func installNarrow(ctx context.Context, c client.Client, namespace string) (account string, err error) {
	account = "narrow-" + manager
	return account, install(ctx, c, account, "template", "narrow", "--show-only", "templates/rbac/following.yaml",
		"--show-only", "templates/rbac/delegates.yaml", "--show-only", "templates/rbac/secrets.yaml", "--set", "rbac.secretNamespaces={"+namespace+"}")
}

// install makes what helm renders, and binds its parts to the manager.
func install(ctx context.Context, c client.Client, account string, arguments ...string) error {
	rendered, err := render(ctx, arguments)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decoding the chart: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		if err := bindPart(ctx, c, object, account); err != nil {
			return err
		}
	}
}

func render(ctx context.Context, arguments []string) ([]byte, error) {
	root := filepath.Join("..", "..", "..")
	helm := filepath.Join(root, ".local", "bin", "helm")
	if _, err := os.Stat(helm); err != nil {
		return nil, fmt.Errorf("these tests render the chart and helm is missing: run `make test-integration`, which builds it: %w", err)
	}
	chart := filepath.Join(root, "charts", release)
	command := exec.CommandContext(ctx, helm, append(arguments, chart, "--namespace", admiralty)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	return out, nil
}

// bindPart gives the manager one part of its rights: there is no controller here that adds them up.
func bindPart(ctx context.Context, c client.Client, role *unstructured.Unstructured, account string) error {
	if role.GetLabels()["admiralty.io/aggregate-to-controller-manager"] != "true" {
		return nil
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.GetName()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.GetName()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: admiralty, Name: account}},
	}
	if err := c.Create(ctx, binding); err != nil {
		return fmt.Errorf("binding %q: %w", role.GetName(), err)
	}
	return nil
}

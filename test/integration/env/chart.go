package env

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// Release is the name of the chart and of its release.
	Release = "multicluster-scheduler"
	// ReleaseNamespace is where the chart is installed.
	ReleaseNamespace = "admiralty"
	// LeasesNamespace is the chart's namespace of Leases.
	LeasesNamespace = ReleaseNamespace + "-leases"
	// SourceRole is the chart's ClusterRole of sources.
	SourceRole = Release + "-source"
	// LeavingRole is the chart's ClusterRole of sources in namespaces that they no longer may use.
	LeavingRole = Release + "-source-leaving"
	// EarlierRole is the chart's ClusterRole of what sources of earlier versions read in the whole cluster.
	EarlierRole = Release + "-source-earlier"
	// SummaryViewerRole is the chart's ClusterRole to read the ClusterSummary.
	SummaryViewerRole = Release + "-cluster-summary-viewer"
	// ManagerAccount is the service account of the manager in ReleaseNamespace.
	ManagerAccount = Release + "-controller-manager"

	partOfManagerRole = "admiralty.io/aggregate-to-controller-manager"
)

// Render returns the objects of the chart, as `helm template` renders them for a release with these arguments.
func Render(t T, release string, arguments ...string) []*unstructured.Unstructured {
	t.Helper()
	rendered, err := Template(t, release, arguments...)
	Must(t, err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("decoding the chart: %v", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Template returns what `helm template` prints for a release with these arguments. An error has what it complains of.
func Template(t T, release string, arguments ...string) ([]byte, error) {
	t.Helper()
	root, err := repository()
	Must(t, err)
	helm := filepath.Join(root, ".local", "bin", "helm")
	Must(t, built(helm))
	arguments = append([]string{
		"template", release, filepath.Join(root, "charts", Release), "--namespace", ReleaseNamespace,
	}, arguments...)
	command := exec.CommandContext(t.Context(), helm, arguments...)
	complaint := &bytes.Buffer{}
	command.Stderr = complaint
	rendered, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, complaint)
	}
	return rendered, err
}

// Install creates objects of the chart. If the user manager is not empty, it gets the parts of the manager's role:
// Install plays the controller that aggregates ClusterRoles.
func (c *Cluster) Install(t T, objects []*unstructured.Unstructured, manager string) {
	t.Helper()
	for _, object := range objects {
		Create(t, c, object.DeepCopy())
		if manager != "" && object.GetLabels()[partOfManagerRole] == "true" {
			c.BindRole(t, manager, "", object.GetName())
		}
	}
}

// InstallSourceRoles creates the chart's roles of sources.
func (c *Cluster) InstallSourceRoles(t T) {
	t.Helper()
	c.Install(t, Render(t, Release, "--show-only", "templates/rbac/sources.yaml", "--set", "rbac.selfTarget=false"), "")
}

// BindSource gives a user the rights of a source in all namespaces. It returns when the API server knows them.
func (c *Cluster) BindSource(t T, user string) {
	t.Helper()
	c.BindRole(t, user, "", SourceRole)
	c.BindRole(t, user, "", SummaryViewerRole)
	for _, resource := range []string{"podchaperons", "clustersummaries"} {
		rule := Rule(v1alpha1.GroupName, []string{resource}, "list")
		c.waitAllowed(t, user, "", &rule)
	}
}

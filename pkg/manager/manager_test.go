package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
)

// apiServer answers which APIs there are, and which UID the namespace kube-system has. It has nothing else.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answerOf(scheme, strings.Trim(r.URL.Path, "/"))
		if answer == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func answerOf(scheme *runtime.Scheme, path string) any {
	switch path {
	case "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "apis":
		groups := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, version := range scheme.PrioritizedVersionsAllGroups() {
			is := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{
				Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{is}, PreferredVersion: is,
			})
		}
		return groups
	case "api/v1/namespaces/kube-system":
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid-of-kube-system"}}
	}
	version, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "api/"), "apis/"))
	if err != nil || !scheme.IsVersionRegistered(version) {
		return nil
	}
	resources := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.String(),
	}
	mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme)
	for kind := range scheme.KnownTypes(version) {
		if found, err := mapper.RESTMapping(version.WithKind(kind).GroupKind(), version.Version); err == nil {
			resources.APIResources = append(resources.APIResources, metav1.APIResource{
				Name: found.Resource.Resource, Kind: kind,
				Namespaced: found.Scope.Name() == meta.RESTScopeNameNamespace,
			})
		}
	}
	return resources
}

func TestAClusterIsNamedByItsConfigurationOrByKubeSystem(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	config := configv1alpha1.Default()
	config.ClusterName = "c1"
	origin, err := identify(t.Context(), apiServer(t), scheme, config)
	if err != nil || origin.ClusterID != "uid-of-kube-system" || origin.ClusterName != "c1" {
		t.Errorf("it is %+v: %v", origin, err)
	}
	nowhere := &rest.Config{Host: "http://" + freeAddress(t)}
	if _, err := identify(t.Context(), nowhere, scheme, config); err == nil {
		t.Error("a cluster whose API server does not answer has an ID")
	}
	config.ClusterID = "configured"
	if origin, err := identify(t.Context(), nowhere, scheme, config); err != nil || origin.ClusterID != "configured" {
		t.Errorf("it is %+v: %v", origin, err)
	}
}

func TestTheLeaseIsInTheNamespaceOfTheConfigurationOrThePod(t *testing.T) {
	config, pod := configv1alpha1.Default(), Pod{Namespace: "admiralty"}
	if namespace := leaseNamespace(config, pod); namespace != "admiralty" {
		t.Errorf("it is in %q", namespace)
	}
	config.LeaderElection.Namespace = "leases"
	if namespace := leaseNamespace(config, pod); namespace != "leases" {
		t.Errorf("it is in %q", namespace)
	}
}

// runnable returns the configuration of a manager that can run here.
func runnable(t *testing.T) *configv1alpha1.Configuration {
	t.Helper()
	config := configv1alpha1.Default()
	*config.LeaderElection.Enabled = false
	config.Metrics.BindAddress = "0"
	config.Health.BindAddress = freeAddress(t)
	config.Webhook.CertDir = t.TempDir()
	issue(t, config.Webhook.CertDir)
	config.Webhook.Port = porttest.Free(t)
	return config
}

var itself = Pod{Namespace: "admiralty", ServiceAccount: "manager", IP: "127.0.0.1"}

// TestAManagerThatCannotFillItsCachesStops runs itself as a process, because a process can have one manager only.
func TestAManagerThatCannotFillItsCachesStops(t *testing.T) {
	const inProcess = "TEST_IN_PROCESS"
	if os.Getenv(inProcess) == "" {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute) // One that does not stop uses a CPU.
		defer stop()
		command := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), inProcess+"=true")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, output)
		}
		return
	}
	config := runnable(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, apiServer(t), config, itself) }()
	eventually(t, func() error {
		select {
		case err := <-ended:
			t.Fatalf("it ended with %v", err)
		default:
		}
		if serves := status(t, config.Health.BindAddress, "/readyz/webhook"); serves != http.StatusOK {
			return fmt.Errorf("/readyz/webhook is %d", serves)
		}
		return nil
	})
	if alive := status(t, config.Health.BindAddress, "/healthz"); alive != http.StatusOK {
		t.Errorf("/healthz is %d", alive)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestAManagerThatIsToStopBeforeItHasStartedStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Run(ctx, &rest.Config{Host: "http://" + freeAddress(t)}, runnable(t), itself); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestAManagerSaysWhyItCannotStart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*rest.Config, *configv1alpha1.Configuration, *Pod)
		want   string
	}{
		"without a namespace": {func(_ *rest.Config, _ *configv1alpha1.Configuration, pod *Pod) {
			pod.Namespace = ""
		}, "POD_NAMESPACE and POD_IP must be set"},
		"without an address": {func(_ *rest.Config, _ *configv1alpha1.Configuration, pod *Pod) {
			pod.IP = ""
		}, "POD_NAMESPACE and POD_IP must be set"},
		"an address for probes that is none": {func(_ *rest.Config, config *configv1alpha1.Configuration, _ *Pod) {
			config.Health.BindAddress = "nonsense"
		}, "listening for probes"},
		"credentials that cannot be read": {func(login *rest.Config, config *configv1alpha1.Configuration, _ *Pod) {
			config.ClusterID = "a"
			config.Webhook.SelfManaged = &configv1alpha1.SelfManagedCertificate{SecretName: "a", ServiceName: "b"}
			login.CAFile = "/does/not/exist"
		}, "preparing the webhook's certificate"},
		"a server that has no APIs": {func(login *rest.Config, config *configv1alpha1.Configuration, _ *Pod) {
			login.Host, config.ClusterID = login.Host+"/nothing", "a"
		}, "making the manager: failed to determine"},
	} {
		t.Run(name, func(t *testing.T) {
			login, config, pod := apiServer(t), runnable(t), itself
			test.change(login, config, &pod)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := Run(ctx, login, config, pod); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it ended with %v, want %q", err, test.want)
			}
		})
	}
}

// freeAddress returns an address of this machine with a port that is free.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", porttest.Free(t))
}

// eventually waits until there is no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.After(time.Minute)
	for err := try(); err != nil; err = try() {
		select {
		case <-deadline:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

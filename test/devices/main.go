// Command devices is a small driver of Dynamic Resource Allocation for the conformance suite. It offers lamps on the
// node where it runs. A container sees a lamp as a variable.
//
// See https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/, and for how container
// runtimes find devices https://github.com/cncf-tags/container-device-interface.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"tags.cncf.io/container-device-interface/specs-go"
)

const (
	driver = "lamps.example.com"
	kind   = "example.com/lamp" // of the Container Device Interface
	folder = "/run/cdi"
	lamps  = 16 // of a node
)

func main() {
	ctx, stop := signal.NotifyContext(
		context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the program begins here
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the driver until the context ends.
func run(ctx context.Context) error {
	node := os.Getenv("NODE")
	if node == "" {
		return errors.New("the variable NODE must be the name of the node")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(kubeletplugin.KubeletPluginsDir, driver), 0o750); err != nil {
		return fmt.Errorf("making the folder of the driver: %w", err)
	}
	helper, err := kubeletplugin.Start(ctx, plugin{}, kubeletplugin.DriverName(driver), kubeletplugin.NodeName(node),
		kubeletplugin.KubeClient(client), kubeletplugin.HealthService(false))
	if err != nil {
		return fmt.Errorf("starting the driver: %w", err)
	}
	defer helper.Stop()
	var devices []resourcev1.Device
	for i := range lamps {
		devices = append(devices, resourcev1.Device{Name: fmt.Sprintf("lamp-%d", i)})
	}
	err = helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		node: {Slices: []resourceslice.Slice{{Devices: devices}}},
	}})
	if err != nil {
		return fmt.Errorf("publishing the devices: %w", err)
	}
	<-ctx.Done()
	return nil
}

// plugin describes the devices of each claim in a file.
type plugin struct{}

func (plugin) PrepareResourceClaims(
	_ context.Context, claims []*resourcev1.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func prepare(claim *resourcev1.ResourceClaim) ([]kubeletplugin.Device, error) {
	var devices []kubeletplugin.Device
	spec := specs.Spec{Version: "0.5.0", Kind: kind}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driver {
			continue
		}
		name := fmt.Sprintf("%s-%s", claim.UID, result.Request)
		variable := "LAMP_" + strings.ToUpper(strings.ReplaceAll(result.Request, "-", "_")) + "=on"
		spec.Devices = append(spec.Devices, specs.Device{
			Name: name, ContainerEdits: specs.ContainerEdits{Env: []string{variable}},
		})
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
			CDIDeviceIDs: []string{kind + "=" + name},
		})
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describing devices: %w", err)
	}
	if err := os.WriteFile(file(claim.UID), content, 0o644); err != nil {
		return nil, fmt.Errorf("describing devices: %w", err)
	}
	return devices, nil
}

func (plugin) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = nil
		if err := os.Remove(file(claim.UID)); err != nil && !errors.Is(err, os.ErrNotExist) {
			results[claim.UID] = fmt.Errorf("removing the description of devices: %w", err)
		}
	}
	return results, nil
}

func (plugin) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintln(os.Stderr, message+":", err)
}

// WatchHealthStatus is not called.
func (plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func file(claim types.UID) string {
	return filepath.Join(folder, driver+"-"+string(claim)+".json")
}

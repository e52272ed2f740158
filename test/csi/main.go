// Command csi is a small driver of the Container Storage Interface for the end-to-end tests: each volume is a folder
// with what the kubelet said of it. It has no capacity, no controller and nothing that is mounted.
//
// See https://github.com/container-storage-interface/spec, and for how kubelets find drivers
// k8s.io/kubelet/pkg/apis/pluginregistration/v1.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	driver  = "folders.example.com"
	kubelet = "/var/lib/kubelet"
)

func main() {
	if err := run(context.Background()); err != nil { //nolint:forbidigo // the program begins here
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the driver and its registration until one of them fails.
func run(ctx context.Context) error {
	node := os.Getenv("NODE")
	if node == "" {
		return errors.New("the variable NODE must be the name of the node")
	}
	socket := filepath.Join(kubelet, "plugins", driver, "csi.sock")
	volumes := grpc.NewServer()
	csi.RegisterIdentityServer(volumes, identity{})
	csi.RegisterNodeServer(volumes, folders{node: node})
	plugins := grpc.NewServer()
	registration.RegisterRegistrationServer(plugins, registrar{socket: socket})
	failed := make(chan error)
	go func() { failed <- serve(ctx, volumes, socket) }()
	go func() { failed <- serve(ctx, plugins, filepath.Join(kubelet, "plugins_registry", driver+"-reg.sock")) }()
	return <-failed
}

// serve serves at a socket, in the place of that of an earlier process.
func serve(ctx context.Context, server *grpc.Server, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return fmt.Errorf("making the folder of a socket: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing an earlier socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return server.Serve(listener)
}

// registrar says to the kubelet where the driver is.
type registrar struct {
	registration.UnimplementedRegistrationServer

	socket string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driver, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !status.GetPluginRegistered() {
		fmt.Fprintln(os.Stderr, "not registered:", status.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// identity names the driver. It has no other capabilities.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driver, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// folders makes a folder for each volume of a node.
type folders struct {
	csi.UnimplementedNodeServer

	node string
}

func (f folders) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: f.node}, nil
}

func (folders) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume makes the folder, with the files "attributes" and "secrets". A real driver would not show the
// Secret.
func (folders) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	folder := request.GetTargetPath()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder: %w", err)
	}
	for name, content := range map[string]map[string]string{
		"attributes": request.GetVolumeContext(), "secrets": request.GetSecrets(),
	} {
		var lines strings.Builder
		for _, key := range slices.Sorted(maps.Keys(content)) {
			fmt.Fprintf(&lines, "%s=%s\n", key, content[key])
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(lines.String()), 0o644); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume removes the folder.
func (folders) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := os.RemoveAll(request.GetTargetPath()); err != nil {
		return nil, fmt.Errorf("removing the folder: %w", err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

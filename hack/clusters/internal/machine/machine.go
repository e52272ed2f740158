package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cgroup"
)

// CNIPlugins is the folder in which Debian installs the plugins that connect pods to the network.
const CNIPlugins = "/usr/lib/cni"

// systemd is the folder that exists where systemd runs.
const systemd = "/run/systemd/system"

// packages maps Debian packages to the programs in them that clusters need.
func packages() map[string][]string {
	return map[string][]string{
		"buildah":                     {"buildah"},
		"containerd":                  {"containerd", "ctr"},
		"containernetworking-plugins": {CNIPlugins + "/ptp", CNIPlugins + "/host-local", CNIPlugins + "/loopback"},
		"iproute2":                    {"ip", "tc"},
		"mount":                       {"mount"},
		"nftables":                    {"nft"},
		"runc":                        {"runc"},
	}
}

// Check returns an error if this machine cannot run clusters now. The error states the reason in one sentence.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("clusters need root, for network namespaces, mounts and control groups: run this as root")
	}
	if missing := missingPackages(); len(missing) > 0 {
		return fmt.Errorf("this machine lacks programs that clusters need: run `make setup`, or `apt-get install %s`",
			strings.Join(missing, " "))
	}
	_, err := cgroup.Mounted()
	return err
}

// SetUp installs the missing Debian packages and writes their names to out. It disables a service that an installation
// enabled.
func SetUp(ctx context.Context, out io.Writer) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("installing packages needs root: run this as root, or run `apt-get install %s`",
			strings.Join(missing, " "))
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine has no apt-get: install what Debian calls %s in another way",
			strings.Join(missing, ", "))
	}
	fmt.Fprintf(out, "installing Debian packages: %s\n", strings.Join(missing, " "))
	if err := apt(ctx, out, "update", "--quiet=2"); err != nil {
		return err
	}
	install := append([]string{"install", "--yes", "--quiet=2", "--no-install-recommends"}, missing...)
	if err := apt(ctx, out, install...); err != nil {
		return err
	}
	if slices.Contains(missing, "containerd") {
		return disable(ctx, "containerd.service")
	}
	return nil
}

// missingPackages returns the Debian packages of which a program is missing.
func missingPackages() []string {
	var missing []string
	for name, programs := range packages() {
		if slices.ContainsFunc(programs, func(program string) bool {
			_, err := exec.LookPath(program)
			return err != nil
		}) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// disable stops and disables a service. Its package starts and enables it where systemd runs.
func disable(ctx context.Context, service string) error {
	if _, err := os.Stat(systemd); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "disable", "--now", service).CombinedOutput(); err != nil {
		return fmt.Errorf("disabling %s: %w: %s", service, err, out)
	}
	return nil
}

func apt(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running apt-get %s: %w", args[0], err)
	}
	return nil
}

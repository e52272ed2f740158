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

// CNIPlugins is where Debian installs the plugins that connect pods to the network.
const CNIPlugins = "/usr/lib/cni"

// systemd has this folder where it runs.
const systemd = "/run/systemd/system"

// packages maps Debian packages to the programs that clusters need of them.
func packages() map[string][]string {
	return map[string][]string{
		"buildah":                     {"buildah"},
		"containerd":                  {"containerd", "ctr"},
		"containernetworking-plugins": {CNIPlugins + "/ptp", CNIPlugins + "/host-local", CNIPlugins + "/loopback"},
		"iproute2":                    {"ip"},
		"mount":                       {"mount"},
		"nftables":                    {"nft"},
		"runc":                        {"runc"},
	}
}

// Check returns an error that says, in one sentence, why this machine cannot run clusters now.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("clusters need root, for they are made of network namespaces, mounts and control groups: run this as root")
	}
	if missing := missingPackages(); len(missing) > 0 {
		return fmt.Errorf("this machine lacks programs that clusters need: run `make setup`, or `apt-get install %s`", strings.Join(missing, " "))
	}
	_, err := cgroup.Mounted()
	return err
}

// SetUp installs the missing Debian packages, and says so on out. It leaves no service of theirs enabled that was not.
func SetUp(ctx context.Context, out io.Writer) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("installing packages needs root: run this as root, or run `apt-get install %s`", strings.Join(missing, " "))
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine has no apt-get: install, by its own means, what Debian calls %s", strings.Join(missing, ", "))
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

// missingPackages returns the packages to be installed.
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

// disable undoes what the package of a service does when it is installed where systemd runs.
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

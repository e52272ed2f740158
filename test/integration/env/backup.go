package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Backup is a copy of everything in the etcd of a cluster, at one time.
type Backup struct{ directory string }

// Save makes a backup of a cluster. The cluster does not answer meanwhile.
func (c *Cluster) Save(t T) Backup {
	t.Helper()
	to, err := os.MkdirTemp("", "backup_")
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(to) })
	etcd := c.environment.ControlPlane.Etcd
	Must(t, etcd.Stop())
	Must(t, os.CopyFS(filepath.Join(to, "etcd"), os.DirFS(etcd.DataDir)))
	Must(t, etcd.Start())
	c.waitUntilItAnswers(t)
	return Backup{to}
}

// SetBack restores a backup, at the same address. The API server ends by force, as on a machine that dies. So it does
// not answer for a few seconds only, and Leases may outlast that. between, unless it is nil, is called while the
// cluster does not answer.
func (c *Cluster) SetBack(t T, to Backup, between func()) {
	t.Helper()
	server, etcd := c.environment.ControlPlane.GetAPIServer(), c.environment.ControlPlane.Etcd
	stopByForce(t, server)
	Must(t, etcd.Stop())
	Must(t, os.RemoveAll(etcd.DataDir))
	Must(t, os.CopyFS(etcd.DataDir, os.DirFS(filepath.Join(to.directory, "etcd"))))
	if between != nil {
		between()
	}
	Must(t, etcd.Start())
	Must(t, server.Start())
	c.waitUntilItAnswers(t)
}

// stopByForce kills an API server as soon as it does not listen any more. By itself it waits for its watches, for up to
// a minute.
func stopByForce(t T, server *envtest.APIServer) {
	t.Helper()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop() }() // It also notes that the server has stopped.
	address := net.JoinHostPort(server.Address, server.Port)
	Eventually(t, func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil //nolint:nilerr // It refuses connections.
		}
		_ = connection.Close()
		return errors.New("it still listens")
	})
	Must(t, kill(server.CertDir))
	Must(t, <-stopped)
}

// kill ends the processes by force whose arguments have a directory that only they use.
func kill(directory string) error {
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, file := range processes {
		arguments, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(arguments, []byte(directory)) {
			continue // It has ended meanwhile, or is another one.
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return fmt.Errorf("reading the ID of a process: %w", err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing process %d: %w", id, err)
		}
	}
	return nil
}

func (c *Cluster) waitUntilItAnswers(t T) {
	t.Helper()
	Eventually(t, func(ctx context.Context) error {
		return c.Client.Get(ctx, types.NamespacedName{Name: "kube-system"}, &corev1.Namespace{})
	})
}

// store gives a control plane directories that outlive a restart. It returns the directory of both.
func store(environment *envtest.Environment) (string, error) {
	data, err := os.MkdirTemp("", "control_plane_")
	if err != nil {
		return "", fmt.Errorf("making a directory for a control plane: %w", err)
	}
	certificates, etcd := filepath.Join(data, "certificates"), filepath.Join(data, "etcd")
	for _, directory := range []string{certificates, etcd} {
		if err := os.Mkdir(directory, 0o700); err != nil {
			return data, fmt.Errorf("making a directory for a control plane: %w", err)
		}
	}
	environment.ControlPlane.GetAPIServer().CertDir = certificates
	environment.ControlPlane.Etcd.DataDir = etcd
	return data, nil
}

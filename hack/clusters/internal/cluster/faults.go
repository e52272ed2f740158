package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
)

// Signal sends a signal to a component. It returns an error if the component does not run.
func (c *Cluster) Signal(component string, signal syscall.Signal) error {
	record, err := c.record(component)
	if err != nil {
		return err
	}
	if !record.Alive() {
		return fmt.Errorf("cluster %q has no running component %q", c.name, component)
	}
	if err := syscall.Kill(record.PID, signal); err != nil {
		return fmt.Errorf("sending a signal to %s of cluster %q: %w", component, c.name, err)
	}
	return nil
}

// Save copies the data of etcd, for a later SetBack. It stops etcd for this moment, so that the copy is consistent.
func (c *Cluster) Save(ctx context.Context) error {
	if err := c.stop(ctx, etcd); err != nil {
		return err
	}
	copied := copyData(ctx, c.data(), c.saved())
	if err := c.ensure(ctx, []component{{name: etcd, args: c.etcdArgs()}}, nil); err != nil {
		return errors.Join(copied, err)
	}
	return errors.Join(copied, c.waitForAPIServer(ctx))
}

// SetBack gives etcd the data that Save has copied. It also restarts each component that has a cache of objects, as
// the documentation of etcd asks for. Containers run on meanwhile.
func (c *Cluster) SetBack(ctx context.Context) error {
	if _, err := os.Stat(c.saved()); err != nil {
		return fmt.Errorf("cluster %q has no saved data: run `clusters save %s` before: %w", c.name, c.name, err)
	}
	for _, name := range []string{kubelet, kubeProxy, coreDNS, kwok, scheduler, controllerManager, apiServer, etcd} {
		if err := c.stop(ctx, name); err != nil {
			return err
		}
	}
	if err := copyData(ctx, c.saved(), c.data()); err != nil {
		return err
	}
	spec, err := c.Spec()
	if err != nil {
		return err
	}
	return c.Start(ctx, spec)
}

func (c *Cluster) data() string { return filepath.Join(c.state, etcd) }

func (c *Cluster) saved() string { return filepath.Join(c.state, "etcd-saved") }

func copyData(ctx context.Context, from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("removing data of etcd: %w", err)
	}
	_, err := process.Run(ctx, process.Place{}, "", "cp", "-a", from, to)
	return err
}

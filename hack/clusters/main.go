// Command clusters builds and runs real Kubernetes clusters on one Linux machine, without Docker.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

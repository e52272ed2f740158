// Command multicluster-scheduler is the manager: all parts of the multicluster scheduler, for source and target
// clusters.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/cmd/multicluster-scheduler/app"
)

func main() {
	if err := app.New().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}

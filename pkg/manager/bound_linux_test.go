package manager

import (
	"testing"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire/wiretest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestTheKernelDeliversNoWriteOfALeaderThatEnded(t *testing.T) {
	server := apiServer(t)
	options, err := managerOptions(t.Context(), server, configv1alpha1.Default(), nil, fromFiles{})
	if err != nil {
		t.Fatal(err)
	}
	within := wiretest.UserTimeoutOf(t, options.Client.HTTPClient, server.Host)
	if within <= 0 || within >= timeouts.LeaseDuration {
		t.Errorf("the kernel sends again for %s", within)
	}
}

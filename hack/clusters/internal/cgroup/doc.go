// Package cgroup keeps the processes of a cluster, and those of its pods, in control groups of their own. Child
// processes inherit the group, and no process can leave it. So the groups are the one complete record of a cluster's
// processes.
//
// The package supports both layouts: version 1 (one hierarchy for each controller, alone or beside an empty version 2)
// and version 2 (one hierarchy).
package cgroup

// Package cgroup keeps the processes of a cluster, and those of its pods, in control groups of their own. Membership is
// inherited, so the groups are also the one record that no process can leave: whatever a cluster started is found in them.
//
// Both layouts are supported: version 1 (one hierarchy for each controller, alone or beside an empty version 2) and
// version 2 (one hierarchy).
package cgroup

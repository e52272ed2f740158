// Package schedulingtest has the pods, PodChaperons, targets and clocks with which the tests of package scheduling and
// of its parts are written.
package schedulingtest

// Package services runs the package pkg/follow/services between the API servers of a source and two targets, and plays the rest: the controllers that
// write EndpointSlices, the scheduler, which makes PodChaperons, and the users.
package services

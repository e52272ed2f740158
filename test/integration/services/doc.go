// Package services runs the package follow/services between the API servers of a source and two targets. The tests
// play the scheduler, which creates PodChaperons. They also play the source's controllers, which write
// EndpointSlices, and the part that copies Secrets.
package services

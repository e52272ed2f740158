// Package responsive judges how well a target answers: well, or slowly, with refusals for load, or with errors. A
// target that does not answer well is not dead. Its pods run on, and nobody is evicted. It only gets no new pods.
//
// The judgement has hysteresis. One bad answer changes nothing, however many requests it concerns: a restart of an API
// server breaks all of them at once. So answers are counted in spans of some seconds, and several spans must be bad. A
// target that has recovered must answer well for a while before it counts as responsive again, and for longer after
// each relapse. New pods are then the trial: renewals of Leases and health checks go on all the time, so no requests
// are made to find out.
//
// Losses are judged in the same manner: see [Observer.Lost].
package responsive

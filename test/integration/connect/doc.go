// Package connect tests, with a real API server for each cluster, how targets are connected and how their virtual
// nodes follow them.
//
// The controllers run as the manager runs them, except that the timers and tickers of their clock go twenty times as
// fast; deadlines of requests are real. All tests share a source and a target cluster; each has targets of its own.
package connect

// Package connect tests, with a real API server for each cluster, how targets are connected and what becomes of their
// virtual nodes.
//
// The controllers run as the manager runs them, but for a clock whose timers and tickers go twenty times as fast; deadlines of requests
// are real. All tests share a source and a target cluster; each has targets of its own.
package connect

// Package grants tests where sources may act in a target: with the controllers of pkg/connect/source, which have the
// rights that the chart gives the manager, and with the tokens of sources.
package grants

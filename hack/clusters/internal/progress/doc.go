// Package progress shows a person what a long step does. It writes whole lines, so that the output stays readable when
// several steps run at the same time, and in the logs of continuous integration.
package progress

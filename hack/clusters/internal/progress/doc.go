// Package progress tells a person what a long step does. It writes whole lines, so that steps that run at the same time
// and logs of continuous integration stay readable.
package progress

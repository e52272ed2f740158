// Package timeouts holds the time-outs that depend on one another although different packages, or the two clusters,
// keep them. A test checks the relations, so that changing one does not break another in silence.
package timeouts

// Package report makes a Markdown report of the benchmark's measurements: tables, a plot, and the project's budgets beside what was
// measured. All of it is pure: the same measurements make the same report.
//
// Plots are Mermaid's xychart, which the places where Markdown is read draw by themselves; that costs no dependency and no file
// beside the report, but there are no legends, so each plot has one bar per measurement.
package report

// Package report writes the benchmark's measurements as a Markdown report: tables, plots, and the project's budgets
// beside the figures. All of it is pure: the same measurements make the same report.
//
// Plots are Mermaid's xychart, which GitHub and GitLab draw in Markdown, so they need neither a dependency nor a file
// beside the report. An xychart has no legend, so each plot has one bar per measurement.
package report

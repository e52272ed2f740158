// Package status shows the targets of a cluster as its manager sees them: whether they are connected, their virtual node, what
// runs there and what is free.
//
// It asks the source cluster alone, so that it answers when a target does not, and needs no credentials of targets. What is free is what the virtual node
// offers less what the proxies on it request.
package status

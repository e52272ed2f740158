// Package rights tests the manager's rights: the chart gives each role the rights that docs/security.md lists and no
// others, and a manager runs with them.
package rights

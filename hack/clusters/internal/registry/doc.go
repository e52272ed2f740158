// Package registry keeps, outside any checkout, the record of what each checkout holds of the machine: a slot, from which
// addresses and the names of namespaces, links and cgroups follow, and its clusters. A slot is recorded before anything is
// made in its name, so whatever a killed run or a deleted checkout leaves behind can be found and removed by its record.
//
// Records live under /run: they are worthless after a reboot, and carry the boot they belong to in case /run survives it.
package registry

// Package registry keeps a record of the resources that each checkout holds on the machine: a slot and clusters. The
// addresses and the names of namespaces, links and control groups follow from the slot. The records are outside the
// checkouts, and a checkout has its record before it makes anything else. So whatever a killed run or a deleted
// checkout leaves behind can be found and removed by the record.
//
// Records are files below /run, because they are worthless after a reboot. In case /run survives the reboot, each
// record contains the ID of its boot.
package registry

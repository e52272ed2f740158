// Package feedback runs the package feedback between the API servers of a source and a target, and plays the rest: the
// scheduler, which creates PodChaperons and binds proxies, and the target's manager, which writes statuses and lets go
// of PodChaperons once their delegates are gone.
package feedback

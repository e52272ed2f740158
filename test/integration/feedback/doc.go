// Package feedback runs the package feedback between the API servers of a source and a target. The tests play the
// scheduler, which creates PodChaperons and binds proxies. They also play the target's manager, which writes statuses
// and removes PodChaperons once their delegates are gone.
package feedback

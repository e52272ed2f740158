// Package devices tests pods that request extended resources which DeviceClasses of the target provide, and no node
// lists (dynamic resource allocation). The API servers are real, and so are the targets' kube-schedulers, which
// allocate the devices. The tests play drivers, which write ResourceSlices, and kubelets. The targets' managers have
// the rights of the chart.
package devices

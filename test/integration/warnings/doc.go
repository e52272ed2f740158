// Package warnings tests that warning events about delegates reach their proxies, with the managers of a source and of
// a target, which has the rights that the chart gives it. The tests play schedulers and kubelets.
package warnings

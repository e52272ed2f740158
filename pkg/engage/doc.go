// Package engage holds the engaged targets: the target clusters that this manager is connected to right now.
//
// One connection and one cache per target are shared by everything that works with it. Package connect/target puts
// targets in and takes them out; proxy, vk and follow use them. Each engaged target has a context whose end is its
// disengagement: what was started for it stops with it.
//
// A target that cannot be reached for a while stays engaged, with its cache as it was; Target.Reachable tells.
package engage

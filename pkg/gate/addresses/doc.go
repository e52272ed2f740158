// Package addresses decides which addresses of another cluster count in this one. It has two users. In a source,
// feedback asks which addresses of a target's pods a proxy shows (InUse.Vet). In a target, the webhook asks to which
// addresses EndpointSlices of a source may lead (Endpoints). The rules are the same: below, exchange the parties.
//
// A target says which addresses its pods and nodes have. The source shows them in the status of proxies, where
// Services, ingress controllers and the API server's pod proxy find them. So a target could lead them anywhere. The
// source never shows:
//
//   - addresses that lead to one machine or its network segment: loopback, link-local, multicast and unspecified ones,
//     in every form that hides one;
//   - addresses of the source's own nodes, Services, pods and API servers. InUse knows them from watches. Ranges are
//     not compared, because many clusters have equal ones;
//   - addresses outside of the ranges that the administrators allow.
//
// # Later
//
// An address can come into use after a proxy shows it. Then InUse tells feedback, which removes the address from the
// proxy, even if the target is lost. When the address is free again, feedback shows it again. Proxies do not use
// addresses: two targets may have pods with equal ones.
//
// # The source as its own target
//
// Then the delegate is a pod of the source, so its addresses are in use by itself. The source's own watch shows this: a
// pod with the delegate's name, which a PodChaperon controls, has the address. Nothing that the target says counts.
//
// # What is not known
//
// Of a node, the addresses in its status are known, and the first two of its ranges of pod addresses, which bridges and
// tunnels take. Other interfaces of nodes are not known, nor are machines outside of the cluster. Only allowed ranges
// protect these.
package addresses

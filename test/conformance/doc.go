// Command conformance compares elected pods with plain pods, on the clusters c1 and c2 of this checkout, with the
// product deployed: `make test-conformance`. It writes the tables of docs/compatibility.md.
//
// A case is a manifest of folder manifests, or an action, which is a Go function. Each case runs twice in c1, each time
// in a namespace of its own. Once its pods are plain and run on c1's node. Once they are elected and run in c2, because
// the virtual node admiralty-c1 is cordoned meanwhile.
//
//   - A manifest has one pod, the objects that it needs, and a header. The header says until when to wait, and which
//     commands of the test image to run inside. The suite compares the pod's metadata, spec, status, logs and events,
//     and the output of the commands.
//   - An action makes its own objects, does what users do with kubectl or a client, waits for the effect, and notes
//     what it sees. The notes are compared.
//
// Values that must differ are normalised: names of namespaces and nodes, UIDs, times, addresses. Each other difference
// must match an entry of differences.yaml, which says why it is there. A difference without an entry fails the run, and
// so does an entry without a difference in a full run.
//
// Nothing waits for time. A pod's states reach the API server one after the other, so a manifest's differences count
// only if they are still there some seconds later.
package main

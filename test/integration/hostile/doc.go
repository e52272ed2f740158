// Package hostile tests that a target which misbehaves on purpose costs the source no more than its share, and others
// nothing.
//
// # The server
//
// newServer starts a program that serves a target's API. It passes each request to an honest API server, c2, with the
// rights of a source, unless its misbehaviour answers the request. server.misbehave sets the misbehaviour, at any time:
// a function that returns false for requests that are to be passed on. server.behave ends it. Both break the
// connections, so that watches begin anew and meet the new behaviour. So a test can first place things honestly.
//
// To add an attack, write a misbehaviour. These help:
//
//   - isWatch, isPath and isList choose requests.
//   - sendJSON begins an answer. bomb, endless, dribble and event are bodies. forever repeats a part until the client
//     has enough.
//   - alter passes a request on and changes the JSON of its answer, for lies in honest answers.
//   - server.requests is the journal of requests: "GET /path?query".
//
// connect makes a ClusterTarget that leads to a server. waitForReason waits for the reason of its condition Connected.
//
// # What every attack must show
//
// costsOthersNothing runs an attack, and compares how fast pods are placed in the target "honest" before the attack and
// during it, until they show the status of their delegates: the 99th percentiles, of the same run. The bound is
// generous. Objects of another namespace of the source must stay as they are. It also bounds the heap of the whole
// process, in which the manager's parts, the tests and the server run: a bomb that is unpacked needs several times as
// much.
package hostile

// Package hostile tests that a target which misbehaves on purpose costs the source no more than its share, and others
// nothing.
//
// # The server
//
// newServer starts the program of package test/hostile. It passes each request to an honest API server, c2, with the
// rights of a source, unless its misbehaviour answers the request. server.Misbehave sets the misbehaviour, at any time:
// a function that returns false for requests that are to be passed on. server.Behave ends it. Both break the
// connections, so that watches begin anew and meet the new behaviour. So a test can first place things honestly.
//
// To add an attack, write a misbehaviour. These help:
//
//   - hostile.IsWatch, IsPath and IsList choose requests.
//   - hostile.SendJSON begins an answer. Bomb, Forever, Dribble and Event are bodies.
//   - server.Alter passes a request on and changes the JSON of its answer, for lies in honest answers.
//   - server.requests is the journal of requests: "GET /path?query".
//
// connect makes a ClusterTarget that leads to a server. waitForReason waits for the reason of its condition Connected.
//
// # What every attack must show
//
// costsOthersNothing runs attacks, and meanwhile places pods in the target "honest", until they show the status of
// their delegates. Objects of another namespace of the source must stay as they are. It also bounds the heap of the
// whole process, in which the manager's parts, the tests and the server run: a bomb that is unpacked needs several
// times as much.
//
// A control group says how fast pods are placed without an attack: a second source, with an API server and a manager of
// its own, which has the target "honest" only. Each pod of the source under attack is placed beside one of the control
// group. Their median, 99th percentile and maximum are compared. Both managers are in this process, so the CPU that the
// hostile server burns here, and a busy machine, delay both groups alike. The comparison shows what a hostile target
// holds up in the manager: locks, workers, queues and turns that targets share. What an attack costs the process as a
// whole is bounded by a generous comparison with the times before the first attack. test/e2e has the hostile server in
// another process.
package hostile

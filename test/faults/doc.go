// Command faults breaks real clusters at random, while pods come, go and finish, and has package checker watch what the
// product makes of it. It needs the clusters c1 and c2 of this checkout, with the product deployed: `make test-faults`.
//
// It works in rounds. In each, it draws faults and operations, carries them out at drawn moments, repairs everything,
// and waits until all is at rest. A seed and the number of a round repeat what was drawn.
package main

// Package amounts makes the amounts of resources in JSON of other clusters harmless, before anything decodes them.
//
// Decoding a resource.Quantity costs what its exponent says. "1e-999999999" makes Kubernetes' code compute a number of
// a thousand million digits, and "10000000000000000001e2147483639" makes it panic, in goroutines that end the process.
// "1e1999999998" is decoded, and costs the same when it is compared.
//
// An amount here has at most 64 characters before its suffix, and at most two digits of exponent, without leading
// zeros. No cluster has 1e100 of anything.
//
// [Check] refuses larger amounts. It is for requests, whose sender learns the reason. [Cutter] takes their excess away,
// and is for answers: an honest API server stores any amount that a user writes. If the whole answer was refused, this
// user would cut a cluster off.
//
// Only amounts are changed, and not each text that looks like one: an abbreviated commit, such as 12e4567, can be a
// label, a name or the value of an environment variable. Amounts are recognised by the keys above them. A test compares
// these keys with the types of Kubernetes.
package amounts

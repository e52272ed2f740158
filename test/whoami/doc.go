// Command whoami is the program of the test image localhost/whoami:dev, in which it is all there is: a web server that
// answers with its pod's name, and the few small commands that tests of pods need where there is no shell. It uses
// nothing but the standard library, so that it builds everywhere and starts at once.
package main

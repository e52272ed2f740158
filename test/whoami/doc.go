// Command whoami is the only program in the test image localhost/whoami:dev. It is a web server that answers with its
// pod's name, and it has the few small commands that tests of pods need in an image without a shell. It uses only the
// standard library, so that it builds everywhere and starts at once.
package main

// Package front is where a server process takes connections: its sockets and addresses, TLS, the
// host names and origins that it answers, the limits of requests, and the orderly end of all of them.
package front

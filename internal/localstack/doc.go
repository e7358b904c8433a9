// Package localstack starts and supervises the private servers of `reelay up`
// and of the tests on this machine: PostgreSQL, Redis and a Google Cloud Storage
// emulator. Each keeps its data in one directory.
//
// Ownership: a directory belongs to one process at a time. The kernel releases
// the lock when that process ends, for whatever reason.
//
// Lifetime: no server outlives the process that started it, even if that process
// is killed with SIGKILL (see [Child]). The data survive, even a crash: a later
// start in the same directory finds them.
//
// Access: other users of the machine cannot reach the servers. Each listens on a
// socket in a directory of mode 0700 or requires a random password. The emulator
// is the exception: it accepts every caller on its loopback port, as Google's
// emulators do.
package localstack

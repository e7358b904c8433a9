// Package services starts and supervises the private servers behind `reelay up`
// and behind the tests: a PostgreSQL, a Redis and a Google Cloud Storage
// emulator whose data lie in one directory.
//
// Who may run: a directory belongs to one process at a time, by a lock that the
// kernel gives back however that process ends.
//
// Who survives: no server outlives the process that started it, not even a
// kill -9 (see [Child]). The data do survive: a later start in the same
// directory finds them, also after a crash.
//
// Who may read: the servers listen where no other user of the machine gets in,
// on a socket in a directory of mode 0700 or behind a random password. The
// emulator alone has neither: like the real service's own emulators it trusts
// whoever reaches its loopback port.
package services

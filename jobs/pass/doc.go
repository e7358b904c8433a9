// Package pass has what runs by itself in control processes: jobs become due, expire, lose their
// slack or are promoted, and the outbox is relayed. Any number of processes may run each pass at once.
//
// A queued job enters the ready index by three ways: the Notifier of package change adds it after the
// commit, the message in the outbox in case that process ends first, and Readier.Sweep from time to
// time. Only the sweep restores an index that Redis has lost, a lost hint that an account reached its
// running limit or fell below it, and a message that asynq lost after Relay published it.
package pass

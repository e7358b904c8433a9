// Package pass has what runs by itself in control processes: jobs become due, expire, lose their
// slack or are promoted, and the outbox is relayed. Any number of processes may run each pass at once.
package pass

// Package alert watches what an operator would watch, and notifies receivers.
//
// A rule is a condition on a figure: of the history, or of the state now. Control evaluates all
// rules every 15 s, in one process at a time. A condition that holds for long enough makes an
// alert fire; one that has not held for a minute resolves it. A figure that is unknown changes
// nothing.
//
// PostgreSQL holds the alerts, and the notices to the receivers, which are written in the
// transaction in which an alert fires or is resolved. So each is sent at least once: a process that
// dies while it sends leaves the notice to another one.
package alert

// Package jobs is the kernel: the states of a job and the transactions that change them.
//
// PostgreSQL is the only authority. Each verb is one transaction that locks worker, job,
// attempt and account in this order. It moves the job along an edge of the table in state.go,
// numbers its event, and updates the account's counters; database constraints enforce the same
// rules. A message that must follow a commit is written to the outbox in the same transaction.
// The Notifier's hints after a commit only make the usual path fast: any of them can be lost.
//
// An API process may be killed at any instruction, since its memory holds nothing but waiting
// calls. Redis may lose everything: Readier.Sweep rebuilds the ready index from PostgreSQL,
// and a claim without the index asks PostgreSQL. A worker may vanish at any time: when its
// lease expires, Reaper.Reap takes its job back, and from then on its fencing token is
// refused.
package jobs

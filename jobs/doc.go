// Package jobs is what may happen to a job: transactions, states, errors.
//
// PostgreSQL is the only authority. Each verb is one transaction that locks
// worker, job, attempt and account in this order. It moves the job along an edge
// of the table in state.go, numbers its event, and keeps the account's counters;
// constraints of the database enforce the same. A message that must follow a
// commit is written to the outbox in the same transaction. The Notifier's hints
// after a commit only make the usual path fast: each can be lost.
//
// What survives: an API process may be killed at any instruction, since nothing
// is in its memory but waiting calls. Redis may lose everything: the ready index
// is rebuilt from PostgreSQL by Sweeper.Sweep, and a claim without it asks
// PostgreSQL. A worker may vanish at any time: Reaper.Reap takes its job back
// when its lease runs out, and its fencing token opens nothing from then on.
package jobs

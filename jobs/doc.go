// Package jobs is what may happen to a job: transactions, states, errors.
//
// PostgreSQL is the only authority. Each verb is one transaction that locks
// account, worker, job and attempt in this order, moves the job along an edge of
// the table in state.go, counts its event and keeps the account's counters; the
// database's own constraints hold the line behind it. Whatever must follow a
// commit is in the outbox within it. The Notifier's hints after a commit only
// make the usual path quick: each can be lost.
//
// What survives: an API process may be killed at any instruction, since nothing
// is in its memory but waiting calls. Redis may lose everything: the ready index
// is rebuilt from PostgreSQL by Sweeper.Sweep, and a claim without it asks
// PostgreSQL. A worker may vanish at any time: Reaper.Reap takes its job back
// when its lease runs out, and its fencing token opens nothing from then on.
package jobs

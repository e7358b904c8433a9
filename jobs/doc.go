// Package jobs has what all of the kernel shares: the caller (Principal), interfaces to the object store,
// Redis and metrics, transactions, the clock, and the policies of the lanes.
//
// The packages below jobs/ use it, in this order: change, then inputs, then submit and lease, then
// operate and pass. PostgreSQL is the only authority. Each verb is one transaction that locks worker,
// job, attempt and account in this order; database constraints enforce the same rules. A message
// that must follow a commit is written to the outbox in the same transaction.
//
// An API process may be killed at any instruction, since its memory holds nothing but waiting
// calls. Redis may lose everything: pass.Readier.Sweep rebuilds the ready index from PostgreSQL,
// and a claim without the index asks PostgreSQL.
package jobs

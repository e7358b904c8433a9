// Package lease is the workers' side of the kernel. A Leaser claims jobs for workers. A Holder
// takes what they report about their attempt: progress, checkpoints, results and failures.
//
// Each call carries a fence, which is the attempt and its token. A worker may vanish at any time.
// When its lease expires, Reaper.Reap requeues the job, and from then on the token is refused.
package lease

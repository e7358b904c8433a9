// Package lease is the side of the workers: a Leaser claims jobs for them, and a Holder takes what
// they report about the attempt that they hold: progress, checkpoints, results and failures.
//
// Each call names a fence, the attempt and its token. A worker may vanish at any time: when its lease
// expires, Reaper.Reap takes its job back, and from then on its token is refused.
package lease

// Package operate has what owners and operators do to jobs that exist: cancel, retry, redrive,
// discard, delete, other priorities and tiers, pauses of queues, halts, and the nodes of workflows.
package operate

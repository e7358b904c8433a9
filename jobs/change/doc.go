// Package change changes jobs: the state machine, the events that record its moves, and what the
// end of a job means for the jobs that wait for it, for its workflow and for its webhooks.
//
// A Change is what one transaction does to one locked job. It moves along an edge of the table in
// state.go, numbers its events and updates the account's counters; SaveAll writes them together.
// After the commit, Notifier.After tells subscribers, the ready index and waiting workers. Its hints
// only make the usual path fast: any of them can be lost.
package change

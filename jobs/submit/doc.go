// Package submit is the way in: a Submitter checks submissions, admits them by rate and load, and
// writes jobs, drafts, takes and the graphs of workflows, each request whole or not at all.
//
// Its transaction writes first and locks last what workers wait for: see batch.go and write.go.
package submit

// Package workflow submits and reads workflows: graphs of jobs that depend on each other and use
// each other's results.
//
// A workflow is its jobs. Which of them may start is decided by the transaction that ends their
// parents, see package jobs; nothing here has to run for a workflow to go on.
package workflow

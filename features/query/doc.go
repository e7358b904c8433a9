// Package query has the checked reads: what a caller may see of jobs, queues, workers and changes, in
// pages, and the figures that the doors show. It changes nothing.
package query

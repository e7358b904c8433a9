// Package watch has the subscriptions: to a job's progress and events, to changes of all jobs, and to
// a worker's directives. One reader per process reads for all of them.
package watch

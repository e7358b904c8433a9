// Package job has the pages of jobs: the list, a job, its log, submission, gallery, takes and saved views.
package job

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Watcher   *watch.Watcher
	Reads     *query.Reads
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Deleter   *operate.Deleter
	Operator  *operate.QueueOperator
	Letters   *operate.DeadLetters
	Retrier   *operate.Retrier
	// Logs reads stored logs; nil if pages show none.
	Logs shell.Logs
}

// controller serves the pages.
type controller struct {
	*shell.Shell
	Config
	jobPages shell.Feeds[*jobView]
}

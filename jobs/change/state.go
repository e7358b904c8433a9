package change

import (
	"slices"

	"github.com/reelay/reelay/models"
)

// Moves is the job's state machine: the next states of each state. A terminal state is left
// only by a new run.
var Moves = map[models.JobStatus][]models.JobStatus{
	models.JobScheduled: {models.JobQueued, models.JobFailed, models.JobCancelled},
	// Only an approval completes while it is BLOCKED.
	models.JobBlocked:    {models.JobQueued, models.JobCompleted, models.JobFailed, models.JobCancelled},
	models.JobQueued:     {models.JobAssigned, models.JobCompleted, models.JobFailed, models.JobCancelled},
	models.JobAssigned:   {models.JobRunning, models.JobQueued, models.JobScheduled, models.JobFailed, models.JobCancelled},
	models.JobRunning:    {models.JobCompleting, models.JobQueued, models.JobScheduled, models.JobFailed, models.JobCancelled},
	models.JobCompleting: {models.JobCompleted, models.JobQueued, models.JobScheduled, models.JobFailed, models.JobCancelled},
	models.JobCompleted:  {},
	models.JobFailed:     {},
	models.JobCancelled:  {},
}

// CanMove reports whether the state machine has an edge between two states.
func CanMove(from, to models.JobStatus) bool { return slices.Contains(Moves[from], to) }

// workerMoves is the worker's state machine.
var workerMoves = map[models.WorkerStatus][]models.WorkerStatus{
	models.WorkerBooting:    {models.WorkerIdle, models.WorkerLost, models.WorkerTerminated},
	models.WorkerIdle:       {models.WorkerBusy, models.WorkerDraining, models.WorkerLost, models.WorkerTerminated},
	models.WorkerBusy:       {models.WorkerIdle, models.WorkerDraining, models.WorkerLost, models.WorkerTerminated},
	models.WorkerDraining:   {models.WorkerLost, models.WorkerTerminated},
	models.WorkerLost:       {models.WorkerIdle, models.WorkerTerminated},
	models.WorkerTerminated: {},
}

// CanWorkerMove reports whether the worker's state machine has an edge between two states.
func CanWorkerMove(from, to models.WorkerStatus) bool {
	return slices.Contains(workerMoves[from], to)
}

package agent

import "errors"

// The reasons to stop a render.
var (
	errLost      = errors.New("the lease is lost")
	errGaveUp    = errors.New("the lease could not be renewed for too long")
	errCancelled = errors.New("the job is cancelled")
	errRelease   = errors.New("the job is handed over")
	errGaveWay   = errors.New("the job gave way to one of a higher lane")
)

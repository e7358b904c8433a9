package remote

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
)

// follow polls the work until it has ended, or until its engine gave no valid answer for too
// long. Hints of the engine only bring the next poll forward.
func (r *run) follow(ctx context.Context) (Status, error) {
	hints := make(chan struct{}, 1)
	stop := r.watch(ctx, hints)
	defer stop()
	waiting, gone := time.Time{}, 0
	for {
		status, err := r.engine.Poll(ctx, r.handle.Ref, r.asked)
		if ctx.Err() != nil {
			return Status{}, context.Cause(ctx)
		}
		if _, refused := errors.AsType[*runtime.Failure](err); refused {
			return Status{}, err
		}
		if err != nil {
			if err := r.away(ctx, err); err != nil {
				return Status{}, err
			}
			continue
		}
		r.touch()
		switch status.State {
		case Gone: // twice, as a list may lag behind
			if gone++; gone > 1 {
				return status, nil
			}
		case Waiting:
			gone = 0
			if waiting.IsZero() {
				waiting = time.Now()
			}
			if late := time.Since(waiting); late > r.patience {
				return Status{}, r.neverStarted(ctx, late)
			}
			r.report.status(status)
		case Running:
			waiting, gone = time.Time{}, 0
			r.report.status(status)
		default:
			return status, nil
		}
		select {
		case <-ctx.Done():
		case <-hints:
		case <-time.After(r.every):
		}
	}
}

// neverStarted ends work that an engine accepted and does not begin, although it had nothing else
// to do.
func (r *run) neverStarted(ctx context.Context, late time.Duration) error {
	_, err := r.engine.Cancel(ctx, r.handle.Ref, r.asked)
	r.clear()
	failure := runtime.Failf(runtime.ProviderUnavailable,
		"The engine %s accepted the job and did not begin it within %s. Look at the engine's own log.",
		r.handle.URL, late.Round(time.Second))
	if err != nil {
		failure.Detail = "It could not be withdrawn: " + err.Error()
	}
	return failure
}

// listenPause is the longest wait before the runtime listens to an engine again.
const listenPause = 5 * time.Second

// watch starts to listen to the events of an engine, and connects again when the connection breaks.
func (r *run) watch(ctx context.Context, hints chan<- struct{}) (stop func()) {
	watcher, ok := r.engine.(Watcher)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		pictures := 0
		for ctx.Err() == nil {
			_ = watcher.Watch(ctx, r.handle.Key, r.asked, func(h Hint) {
				if h.Progress != nil {
					r.report.status(*h.Progress)
				}
				if len(h.Preview) > 0 {
					pictures++
					r.report.preview(pictures, h.Preview, h.Extension)
				}
				if h.Poll {
					select {
					case hints <- struct{}{}:
					default:
					}
				}
			}) // polls continue without it
			_ = pause.For(ctx, min(r.every, listenPause))
		}
	})
	return func() { cancel(); listening.Wait() }
}

// cancelLimit is how long to wait for the proof that an engine has stopped. The agent kills this
// process 5 s after it asked.
const cancelLimit = 4 * time.Second

// cancel stops the work if the job was cancelled, and leaves it to the next worker otherwise. It
// returns when the engine has proved that it stopped, or once the limit has passed. The agent then
// sends the engine no job until it is idle.
func (r *run) cancel(ctx context.Context) {
	if !errors.Is(context.Cause(ctx), runtime.ErrCancelled) || !r.sent {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer done()
	for ctx.Err() == nil {
		if r.handle.Ref == "" { // the job was cancelled during its submit
			ref, found, err := r.engine.Find(ctx, r.handle.Key, r.handle.Since, r.asked)
			if err == nil && found == FoundNothing {
				return
			}
			if r.handle.Ref = ref; ref == "" {
				_ = pause.For(ctx, r.every/4)
				continue
			}
		}
		stop, err := r.engine.Cancel(ctx, r.handle.Ref, r.asked)
		if err == nil && stop == Stopped {
			r.log("info", "The engine has stopped the work.")
			return
		}
		if err == nil && stop == Impossible {
			break
		}
		status, polled := r.engine.Poll(ctx, r.handle.Ref, r.asked)
		if polled == nil && status.State.ended() {
			if health, err := r.engine.Health(ctx); err == nil && !health.Busy {
				r.log("info", "The engine has stopped the work.")
				return
			}
		}
		_ = pause.For(ctx, r.every/4)
	}
	r.log("warn", "The engine "+r.handle.URL+" still computes the cancelled job: it gets no other job until it is idle.")
}

// salvage looks for files of work that is gone, which outlived their engine's memory. It returns
// the state Succeeded if there is a whole one.
func (r *run) salvage(ctx context.Context, gone Status) (Status, error) {
	salvager, ok := r.engine.(Salvager)
	if !ok {
		return gone, nil
	}
	var files []File
	err := r.insist(ctx, "looking for the result", func() (err error) {
		files, err = salvager.Salvage(ctx, r.handle.Key, r.asked)
		return err
	})
	if err != nil || len(files) == 0 {
		return gone, err
	}
	path := filepath.Join(r.job.Workdir, "salvaged"+filepath.Ext(files[0].Name))
	if err := r.fetch(ctx, files[0], path); err != nil {
		if ctx.Err() != nil {
			return gone, context.Cause(ctx)
		}
		r.log("warn", "A file that an earlier run left cannot be fetched: "+err.Error())
		return gone, nil
	}
	report, err := quality.Check(ctx, path, quality.Expect{AllowDark: true, AllowStill: true})
	if ctx.Err() != nil {
		return gone, context.Cause(ctx)
	}
	if err != nil || report.Defect != nil {
		r.log("info", "The engine has a file of the lost run, which is not complete.")
		return gone, nil
	}
	r.log("info", "The engine was restarted after it had finished the video, which is adopted.")
	return Status{State: Succeeded, Files: files}, nil
}

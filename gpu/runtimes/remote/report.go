package remote

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

const (
	beatEvery = 30 * time.Second // the agent counts 5 minutes without progress as a hang
	// renderedAt is the percent at which a render is done; the rest is the way of the file.
	renderedAt = 95
	// previewEvery is the shortest time between two pictures.
	previewEvery = time.Second
	// fetchedEvery is the shortest time between two reports of a transfer, which can come byte by byte.
	fetchedEvery = 200 * time.Millisecond
	maxPreview   = 4 << 20 // bytes
)

// report sends the progress of the job to the agent.
type report struct {
	job *runtime.Job

	mu       sync.Mutex
	last     runtime.Progress
	quoted   bool // the message is the engine's own
	pictured time.Time
	fetching time.Time // the last report of a transfer
	stop     chan struct{}
}

// newReport starts to report. It answers requests for checkpoints, of which there are none, and
// repeats the last progress from time to time, since an engine may be silent for long.
func newReport(job *runtime.Job) *report {
	r := &report{job: job, stop: make(chan struct{}), last: runtime.Progress{Phase: runtime.PhaseRendering}}
	go func() {
		beat := time.NewTicker(beatEvery)
		defer beat.Stop()
		for {
			select {
			case <-job.CheckpointAsked:
				job.Checkpoint(runtime.Checkpoint{})
			case <-beat.C:
				r.say("")
			case <-r.stop:
				return
			}
		}
	}()
	return r
}

func (r *report) close() { close(r.stop) }

// say reports a sentence beside the last progress, or repeats that if it is empty.
func (r *report) say(sentence string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sentence != "" {
		r.last.Message, r.quoted = sentence, false
	}
	r.job.Progress(r.last)
}

// status reports what the engine says of the work. The percent does not go back within a run.
func (r *report) status(s Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.State == Waiting {
		r.last.Message = "the engine has accepted the job"
	}
	if s.State == Running && (s.Message != "" || !r.quoted) {
		r.last.Message, r.quoted = cmp.Or(s.Message, "rendering"), s.Message != ""
	}
	if s.Phase != "" {
		r.last.Phase = s.Phase
	}
	if s.Done >= 0 {
		r.last.Percent = max(r.last.Percent, min(s.Done, 1)*renderedAt)
	}
	if s.Step >= 0 && s.Steps > 0 && s.Step <= s.Steps {
		r.last.Step, r.last.TotalSteps = s.Step, s.Steps
	}
	r.job.Progress(r.last)
}

// restart reports that the work starts again.
func (r *report) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.quoted = runtime.Progress{Phase: runtime.PhaseRendering, Message: "the job starts again"}, false
	r.job.Progress(r.last)
}

// fetched reports how much of the result has arrived. size is -1 if it is unknown.
func (r *report) fetched(bytes, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.fetching) < fetchedEvery {
		return
	}
	r.fetching = time.Now()
	r.last.Phase, r.last.Percent = runtime.PhaseEncoding, renderedAt
	r.last.Message = fmt.Sprintf("fetching the result, %.1f MB", float64(bytes)/1e6)
	if size > 0 {
		r.last.Percent += (100 - renderedAt) * float64(min(bytes, size)) / float64(size)
	}
	r.job.Progress(r.last)
}

// preview hands a picture to the agent, unless the last one is too young.
func (r *report) preview(n int, picture []byte, extension string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.pictured) < previewEvery || len(picture) > maxPreview {
		return
	}
	r.pictured = time.Now()
	path := filepath.Join(r.job.Workdir, fmt.Sprintf("preview-%d%s", n, extension))
	if os.WriteFile(path, picture, 0o600) == nil { // the job needs no preview
		r.job.Preview(path, r.last.Step)
	}
}

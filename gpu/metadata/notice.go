package metadata

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// The sources of notices.
const (
	Auto = "auto"
	GCE  = "gce"
	EC2  = "ec2"
	Off  = "off"
)

// Sources lists the sources of notices.
var Sources = []string{Auto, GCE, EC2, Off}

// Notice says that the machine is about to be taken away.
type Notice struct {
	// Reason is a phrase for people.
	Reason   string
	Deadline time.Time
}

// Watcher waits for the notice that the machine is about to be taken away.
type Watcher struct {
	// Source is GCE, EC2, Off, or Auto, which asks the machine's network which cloud it is in.
	Source string
	// Notice is how long the machine exists after a notice that does not say it.
	Notice time.Duration
	Log    *slog.Logger

	pace pace // zero: the default
}

// pace says how often a watcher asks. Tests shorten it.
type pace struct {
	// least is the shortest time between two requests for the same value, in case a server
	// answers at once instead of waiting for a change.
	least time.Duration
	// poll is the time between two questions to a server that cannot wait for a change.
	poll time.Duration
	// longPoll is how long a server may wait for a change.
	longPoll time.Duration
	// retry is the longest time between two requests to a server that does not answer.
	retry time.Duration
}

var defaultPace = pace{least: time.Second, poll: 5 * time.Second, longPoll: time.Minute, retry: 30 * time.Second}

// Watch calls tell with each notice, at most once per reason, until ctx ends. What a metadata
// server takes back does not count: the machine may still go. In a job of Slurm it also tells of
// the end of the job's time, unless Source is Off. tell must not block for long, and may be called
// concurrently.
func (w Watcher) Watch(ctx context.Context, tell func(Notice)) {
	if w.pace == (pace{}) {
		w.pace = defaultPace
	}
	source := w.Source
	if source == Off {
		return
	}
	var slurm sync.WaitGroup
	slurm.Go(func() { w.watchSlurm(ctx, tell) })
	defer slurm.Wait()
	if source == Auto {
		source = w.probe(ctx)
	}
	w.Log.Debug("notices of preemption, besides signals", "source", source)
	switch source {
	case GCE:
		w.watchGCE(ctx, gceServer(), tell)
	case EC2:
		w.watchEC2(ctx, ec2Server(), tell)
	}
}

// probes is how many times Watch looks for a metadata server: the network of a machine that
// has just started may not be up.
const probes = 3

// probe returns the cloud whose metadata server answers, or Off.
func (w Watcher) probe(ctx context.Context) string {
	for try := range probes {
		if try > 0 && !sleep(ctx, w.pace.poll) {
			break
		}
		var gce, ec2 error
		var asking sync.WaitGroup
		asking.Go(func() { _, _, gce = gceServer().ask(ctx, answerTimeout, "GET", preemptedPath, flavor...) })
		asking.Go(func() { _, ec2 = ec2Token(ctx, ec2Server()) })
		asking.Wait()
		switch {
		case gce == nil:
			return GCE
		case ec2 == nil:
			return EC2
		}
	}
	return Off
}

// follow asks again and again until ctx ends or ask returns true. It logs when the server
// fails and when it answers again, and asks less often meanwhile.
func (w Watcher) follow(ctx context.Context, value string, ask func() (done bool, err error)) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		done, err := ask()
		if done || ctx.Err() != nil {
			return
		}
		if err == nil {
			if failures > 0 {
				w.Log.Info("the metadata server answers again", "value", value)
			}
			failures = 0
			sleep(ctx, w.pace.least-time.Since(began))
			continue
		}
		if failures++; failures == 1 {
			w.Log.Warn("the metadata server does not answer: this worker may get no notice of a preemption", "value", value, "error", err)
		}
		wait := min(w.pace.retry, w.pace.least<<min(failures, 10))
		sleep(ctx, wait-rand.N(wait/4+1))
	}
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

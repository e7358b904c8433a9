package demo

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/workflows"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/storyboard"
)

// demoFilm is the storyboard of `reelay demo --storyboard`: short shots, two of which begin with a
// frame of the first.
//
//go:embed demo_film.yaml
var demoFilm []byte

// The film that the storyboard makes.
const demoFilmSeconds, demoFilmFPS = 5.0, 24

// filmDemo is a film and the end of one of its workers.
type filmDemo struct {
	demo
	workflow string
	shot     string // the key of the node whose worker was killed
}

// run submits the film, kills the worker of a shot half-way, and downloads what comes of it.
func (d *filmDemo) run(ctx context.Context, path string) error {
	film, err := storyboard.Read("demo_film.yaml", demoFilm)
	if err != nil {
		return err
	}
	in, err := film.Compile(storyboard.Options{})
	if err != nil {
		return err
	}
	w, err := d.client.SubmitWorkflow(ctx, *in)
	if err != nil {
		return connect.WithAdvice(err)
	}
	d.workflow = w.Id
	d.display.Note(fmt.Sprintf("\nStoryboard: %d shots, joined to one film\nWorkflow:   %s\n", len(film.Shots), d.workflow))
	seen := &workflows.SeenNodes{States: map[string]string{}}
	defer d.display.Keep()
	for {
		now, err := d.client.WorkflowDetail(ctx, d.workflow)
		if err != nil {
			return connect.WithAdvice(err)
		}
		workflows.NameNodes(now.Jobs)
		seen.Show(d.display, now)
		if err := cmp.Or(d.display.Err, d.scene(ctx, now)); err != nil {
			return err
		}
		if now.Status.Terminal() {
			return d.finale(ctx, now, path)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(filmEvery):
		}
	}
}

// filmEvery is the time between two looks at the film: a shot takes a few seconds.
const filmEvery = 200 * time.Millisecond

// scene kills the worker of the first shot that is half-way, and then tells what happens to the shot.
func (d *filmDemo) scene(ctx context.Context, w *client.WorkflowDetail) error {
	if d.shot != "" {
		return d.aftermath(ctx)
	}
	i := slices.IndexFunc(w.Jobs, func(n client.WorkflowNode) bool {
		_, isShot := storyboard.ShotKey(n.Key)
		return isShot && n.Job.Status == client.JobStatusRunning && n.Job.Progress.Phase == client.PhaseRendering &&
			n.Job.Progress.Percent >= demoKillAt
	})
	if i < 0 {
		return nil
	}
	d.job = w.Jobs[i].Job.Id
	worker, err := d.victim(ctx)
	if err != nil {
		return err
	}
	d.shot = w.Jobs[i].Key
	if _, err := d.operator.TerminateWorker(ctx, worker.Id); err != nil {
		return connect.WithAdvice(err)
	}
	d.story(d.noticed, "worker %s is killed without notice; it rendered %s", d.names[worker.Id], d.shot)
	return nil
}

// finale downloads the film, checks what happened and prints the summary.
func (d *filmDemo) finale(ctx context.Context, w *client.WorkflowDetail, path string) error {
	if err := workflows.WorkflowEnding(w); err != nil {
		return err
	}
	if d.shot == "" {
		return errors.New("the demo failed: the film ended before a worker was killed")
	}
	history, err := d.client.JobHistory(ctx, d.job)
	if err != nil {
		return connect.WithAdvice(err)
	}
	if err := d.printEvents(ctx, history); err != nil {
		return err
	}
	if w.Output == nil {
		return fmt.Errorf("%s has no film", w.Id)
	}
	job, err := d.client.Job(ctx, w.Output.Job.Id)
	if err != nil {
		return connect.WithAdvice(err)
	}
	file, err := jobs.SaveVideo(ctx, d.client, job, path, d.display)
	if err != nil {
		return err
	}
	video, err := probe(ctx, path)
	if err != nil {
		return err
	}
	if err := errors.Join(video.check(demoFilmSeconds, demoFilmFPS), d.check(w, history)); err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	d.display.Note(fmt.Sprintf("\nFilm:   %s\n        %.2f s, %d frames of %d×%d, H.264\n        %d bytes, crc32c %s (verified)",
		file.Path, video.Seconds, video.Frames, video.Width, video.Height, file.SizeBytes, file.Checksum))
	d.display.Note(fmt.Sprintf("Killed: the worker of %s. The shot ran on another worker after %.2f s; %.1f s of GPU work had to be done\n"+
		"        again. The other shots were not touched",
		d.shot, d.since(history, client.JobEventTypeStarted), history.WastedGpuSeconds))
	return d.display.Err
}

// check returns every deviation from what the demo promises.
func (d *filmDemo) check(w *client.WorkflowDetail, h *client.JobHistory) error {
	var wrong []error
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	for _, n := range w.Jobs {
		expect(n.Job.Status == client.JobStatusCompleted, "%s is %s, not COMPLETED", n.Key, n.Job.Status)
	}
	if len(h.Attempts) < 2 {
		return errors.Join(append(wrong, fmt.Errorf("%s has %d attempts, not two", d.shot, len(h.Attempts)))...)
	}
	first, last := attemptOf(h, 1), attemptOf(h, h.AttemptNo)
	expect(first.Status == client.AttemptStatusLost, "the first attempt of %s is %s, not LOST", d.shot, first.Status)
	expect(first.Worker != nil && first.Worker.Id == d.preempted, "the first attempt of %s was not the killed worker's", d.shot)
	expect(last.Worker != nil && last.Worker.Id != d.preempted, "the last attempt of %s was not another worker's", d.shot)
	expect(d.since(h, client.JobEventTypeStarted) > 0, "no event tells when %s ran again", d.shot)
	return errors.Join(wrong...)
}

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/internal/provider"
)

// providerVideo is the video of the fake of a hosted provider, such as fake-veo.
func providerVideo(name string) (*demoVideo, error) {
	kind, isFake := strings.CutPrefix(name, "fake-")
	if !isFake || provider.Find(kind) == nil {
		return nil, fmt.Errorf("--provider is %q: the demo runs the fake of a hosted provider, such as fake-veo or fake-kling", name)
	}
	return &demoVideo{
		model: name, seconds: 4, fps: 24, up: []string{"--fake-providers=" + kind}, params: map[string]any{"durationSeconds": 4},
		prepare: func(context.Context, *progress.Display, string) ([]string, error) { return nil, nil },
	}, nil
}

// providerDemo is one job at a hosted provider, whose agent is killed while the provider works.
type providerDemo struct{ demo }

func (d *providerDemo) run(ctx context.Context, prompt, path string) error {
	job, err := d.follow(ctx, prompt, d.scene)
	if err != nil {
		return err
	}
	return d.finale(ctx, job, path)
}

// scene ends the worker once the provider works on the job.
func (d *providerDemo) scene(ctx context.Context, job *client.Job) error {
	if d.preempted != "" {
		if err := d.aftermath(ctx); err != nil {
			return err
		}
	}
	if err := d.display.Job(job); err != nil || d.preempted != "" || job.Progress.Phase != client.PhaseGenerating {
		return err
	}
	worker, err := d.victim(ctx)
	if err != nil {
		return err
	}
	if _, err := d.operator.TerminateWorker(ctx, worker.Id); err != nil {
		return connect.WithAdvice(err)
	}
	d.story(d.noticed, "worker %s is killed without notice, while the provider works on the job", d.names[worker.Id])
	return nil
}

// finale downloads the video, and checks that the provider was paid once.
func (d *providerDemo) finale(ctx context.Context, job *client.Job, path string) error {
	history, err := d.client.JobHistory(ctx, d.job)
	if err != nil {
		return connect.WithAdvice(err)
	}
	if err := d.printEvents(ctx, history); err != nil {
		return err
	}
	file, err := jobs.SaveVideo(ctx, d.client, job, path, d.display)
	if err != nil {
		return err
	}
	video, err := probe(ctx, path)
	if err != nil {
		return err
	}
	billed, err := d.billed(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(video.check(d.video.seconds, d.video.fps), d.check(history, billed)); err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	d.display.Note(fmt.Sprintf("\nVideo:  %s\n        %.2f s, %d frames of %d×%d, H.264\n        %d bytes, crc32c %s (verified)",
		file.Path, video.Seconds, video.Frames, video.Width, video.Height, file.SizeBytes, file.Checksum))
	d.display.Note(fmt.Sprintf("Killed: the worker that had submitted the job to the provider. The next one did not submit it again, and\n"+
		"        waited for what the provider was rendering: %d attempts, %d job billed",
		len(history.Attempts), billed))
	return d.display.Err
}

// check checks that the first worker was killed, and that the second went on with the job that was paid.
func (d *providerDemo) check(h *client.JobHistory, billed int) error {
	switch n := len(h.Attempts); {
	case d.preempted == "":
		return errors.New("the job ended before its worker was killed")
	case n != 2:
		return fmt.Errorf("the job has %d attempts; it should have 2", n)
	case h.Attempts[0].Worker == nil || h.Attempts[0].Worker.Id != d.preempted:
		return errors.New("the first attempt was not the killed worker's")
	case h.Attempts[1].Status != client.AttemptStatusSucceeded:
		return fmt.Errorf("the second attempt is %s", h.Attempts[1].Status)
	case billed != 1:
		return fmt.Errorf("the provider bills %d jobs; it should be 1", billed)
	}
	return nil
}

// billed asks the fake how many jobs it bills.
func (d *providerDemo) billed(ctx context.Context) (int, error) {
	pools, err := d.operator.Pools(ctx)
	if err != nil {
		return 0, connect.WithAdvice(err)
	}
	for _, pool := range pools {
		if pool.Name != d.video.model || len(pool.Engines) == 0 {
			continue
		}
		at, err := url.Parse(pool.Engines[0].Url)
		if err != nil {
			return 0, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.Scheme+"://"+at.Host+"/billed", nil)
		if err != nil {
			return 0, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, fmt.Errorf("ask the fake what it bills: %w", err)
		}
		defer response.Body.Close()
		var says struct{ Jobs int }
		if err := json.NewDecoder(response.Body).Decode(&says); err != nil {
			return 0, fmt.Errorf("ask the fake what it bills: %w", err)
		}
		return says.Jobs, nil
	}
	return 0, fmt.Errorf("there is no pool %s", d.video.model)
}

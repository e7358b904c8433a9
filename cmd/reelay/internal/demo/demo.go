package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/spf13/cobra"
)

// demoOptions are the flags of `reelay demo`.
type demoOptions struct {
	data, prompt, output, model, python string
	provider                            string
	keep, storyboard                    bool
}

const demoPrompt = "A lighthouse on a cliff at dusk, its beam sweeping over a rising storm"

// Command returns `reelay demo`.
func Command() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Turn one prompt into a video, with a worker preempted half-way",
		Long: "Starts a complete Reelay with two workers, submits a prompt, preempts the worker half-way through the\n" +
			"render, and shows how the other worker resumes from the checkpoint. It takes less than a minute.\n" +
			"With --storyboard, it makes a film of three shots instead, and kills the worker of a shot without notice.\n" +
			"With --provider, it makes a video at the fake of a hosted provider, and kills the worker while the provider works.\n" +
			"The exit status is 0 only if all of this happened and the video plays.",
		Example: "  reelay demo\n  reelay demo --prompt 'two foxes in the snow' --output foxes.mp4\n  reelay demo --model tiny-ltx\n" +
			"  reelay demo --storyboard --output film.mp4\n  reelay demo --provider fake-veo",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "folder for the data (default: a temporary one)")
	f.BoolVar(&o.keep, "keep", false, "keep the temporary folder")
	f.BoolVar(&o.storyboard, "storyboard", false, "make a short film of several shots, with a worker killed without notice")
	f.StringVar(&o.provider, "provider", "", "make the video at the fake of a hosted provider, such as fake-veo")
	f.StringVar(&o.prompt, "prompt", demoPrompt, "what the video should show")
	f.StringVar(&o.model, "model", "testcard", "testcard, or tiny-ltx: LTX-Video with tiny random weights, which the demo makes")
	f.StringVar(&o.python, "python", "python3", "the Python for tiny-ltx, with reelay-runtime and reelay-diffusers")
	f.StringVarP(&o.output, "output", "o", "video.mp4", "file to store the video in; replaced if it exists")
	cmd.MarkFlagsMutuallyExclusive("storyboard", "prompt")
	cmd.MarkFlagsMutuallyExclusive("storyboard", "model")
	cmd.MarkFlagsMutuallyExclusive("provider", "storyboard")
	cmd.MarkFlagsMutuallyExclusive("provider", "model")
	return cmd
}

const (
	demoPreemptAt   = 50.0 // percent
	demoKillAt      = 40.0 // percent of a shot
	demoNotice      = 10 * time.Second
	demoAgents      = 2
	demoMaxDuration = 5 * time.Minute // something hangs
)

func (o *demoOptions) run(cmd *cobra.Command) (err error) {
	if err := output.CheckFile(o.output, true); err != nil {
		return err
	}
	if _, err := findProbe(); err != nil {
		return err
	}
	video, err := o.video()
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), demoMaxDuration, errors.New("the demo took too long"))
	defer cancel()
	d := progress.DisplayFor(cmd, cmd.OutOrStdout())
	stack, err := newSubstack(o.data)
	if err != nil {
		return err
	}
	if o.keep {
		stack.remove = false
	}
	err = o.show(ctx, d, stack, video)
	if stopped := stack.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return o.orStopped(cmd, err)
	}
	if o.keep {
		d.Note("The stack's data are kept in " + stack.data)
	}
	d.Note(fmt.Sprintf("\nAll of it took %.1f s.", time.Since(began).Seconds()))
	return d.Err
}

// show starts the stack and runs the demo on it.
func (o *demoOptions) show(ctx context.Context, d *progress.Display, stack *substack, video *demoVideo) error {
	began := time.Now()
	env, err := video.prepare(ctx, d, stack.data)
	if err != nil {
		return err
	}
	agents, with := demoAgents, "two workers"
	if o.provider != "" {
		agents, with = 0, "the fake of a provider"
	}
	d.Note("Starting PostgreSQL, Redis, an object store, the API and " + with + " …")
	if err := stack.start(ctx, append(video.up, "--agents", strconv.Itoa(agents)), env); err != nil {
		return err
	}
	d.Note(fmt.Sprintf("Ready after %.1f s at %s", time.Since(began).Seconds(), stack.Endpoint))
	show, err := newDemo(stack.Keys, d, video)
	if err != nil {
		return err
	}
	if o.provider != "" {
		return (&providerDemo{demo: *show}).run(ctx, o.prompt, o.output)
	}
	if o.storyboard {
		return (&filmDemo{demo: *show}).run(ctx, o.output)
	}
	return show.run(ctx, o.prompt, o.output)
}

// orStopped replaces the error if the user stopped the demo.
func (o *demoOptions) orStopped(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return errors.New("the demo was stopped; everything that it started has ended")
	}
	return err
}

// demo is one job and the preemption of its worker.
type demo struct {
	video    *demoVideo
	display  *progress.Display
	client   *client.Client // as the customer
	operator *client.Client
	names    map[string]string // of workers

	job       string
	preempted string // the worker
	noticed   time.Time
	lastSeq   int // the sequence number of the last event shown
}

func newDemo(keys credentials.Keys, d *progress.Display, video *demoVideo) (*demo, error) {
	c, err := connect.NewClient(keys.Endpoint, keys.ClientKey, keys.CAFile)
	if err != nil {
		return nil, err
	}
	return &demo{video: video, display: d, client: c, operator: c.WithKey(keys.OperatorKey), names: map[string]string{}}, nil
}

func (d *demo) run(ctx context.Context, prompt, path string) error {
	job, err := d.follow(ctx, prompt, d.scene)
	if err != nil {
		return err
	}
	return d.finale(ctx, job, path)
}

// follow submits the job and follows it until it has completed, with a scene for each of its states.
func (d *demo) follow(ctx context.Context, prompt string, scene func(context.Context, *client.Job) error) (*client.Job, error) {
	params := input.Fields{}
	for name, value := range d.video.params {
		if err := params.Set(name, value); err != nil {
			return nil, err
		}
	}
	submission, err := d.client.SubmitJob(ctx, client.SubmitJobInput{Model: d.video.model, Prompt: &prompt, Params: params.Message()})
	if err != nil {
		return nil, connect.WithAdvice(err)
	}
	d.job = submission.Job.Id
	d.display.Note(fmt.Sprintf("\nPrompt: %s\nJob:    %s\n", output.Clean(prompt), d.job))
	job, err := progress.Follow(ctx, d.client, d.job, d.display, func(job *client.Job) error { return scene(ctx, job) })
	if err != nil {
		return nil, err
	}
	return job, progress.Ending(job)
}

// scene handles each state of the job: it preempts the worker in the middle and then
// shows what happens.
func (d *demo) scene(ctx context.Context, job *client.Job) error {
	if d.preempted == "" {
		err := d.display.Job(job)
		if err == nil && job.Progress.Phase == client.PhaseRendering && job.Progress.Percent >= demoPreemptAt {
			err = d.preempt(ctx)
		}
		return err
	}
	if err := d.aftermath(ctx); err != nil {
		return err
	}
	return d.display.Job(job)
}

// aftermath prints what has happened to the job since the notice, as far as it was not printed.
func (d *demo) aftermath(ctx context.Context) error {
	history, err := d.client.JobHistory(ctx, d.job)
	if err != nil {
		return connect.WithAdvice(err)
	}
	return d.printEvents(ctx, history)
}

func (d *demo) preempt(ctx context.Context) error {
	worker, err := d.victim(ctx)
	if err != nil {
		return err
	}
	if _, err := d.operator.PreemptWorker(ctx, worker.Id, demoNotice); err != nil {
		return connect.WithAdvice(err)
	}
	d.story(d.noticed, "worker %s is preempted: it has %.0f s left", d.names[worker.Id], demoNotice.Seconds())
	return nil
}

// victim returns the worker that holds the job, which is preempted or killed now. aftermath prints what happens from now on.
func (d *demo) victim(ctx context.Context) (*client.Worker, error) {
	worker, err := d.worker(ctx)
	if err != nil {
		return nil, err
	}
	history, err := d.client.JobHistory(ctx, d.job)
	if err != nil {
		return nil, connect.WithAdvice(err)
	}
	for _, edge := range history.Events.Edges {
		d.lastSeq = edge.Node.Seq
	}
	d.noticed, d.preempted = time.Now(), worker.Id
	return worker, nil
}

// worker returns the worker that holds the job, and records the names of all workers.
func (d *demo) worker(ctx context.Context) (*client.Worker, error) {
	page, err := d.operator.Workers(ctx, client.WorkerFilter{}, 200, "")
	if err != nil {
		return nil, connect.WithAdvice(err)
	}
	var holder *client.Worker
	for _, edge := range page.Edges {
		d.name(&edge.Node)
		if job := edge.Node.CurrentJob; job != nil && job.Id == d.job {
			holder = &edge.Node
		}
	}
	if holder == nil {
		return nil, fmt.Errorf("no worker holds %s, which should be half-way", d.job)
	}
	return holder, nil
}

// story prints an event with its time since the notice.
func (d *demo) story(at time.Time, format string, args ...any) {
	d.display.Note(fmt.Sprintf("  %5.2f s  ", at.Sub(d.noticed).Seconds()) + fmt.Sprintf(format, args...))
}

// finale downloads the video, checks what happened and prints the summary.
func (d *demo) finale(ctx context.Context, job *client.Job, path string) error {
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
	if err := errors.Join(video.check(d.video.seconds, d.video.fps), d.check(history)); err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	d.display.Note(fmt.Sprintf("\nVideo:     %s\n           %.2f s, %d frames of %d×%d, H.264\n           %d bytes, crc32c %s (verified)",
		file.Path, video.Seconds, video.Frames, video.Width, video.Height, file.SizeBytes, file.Checksum))
	d.display.Note(fmt.Sprintf("Preempted: it cost %.2f s from the notice until the job ran on the other worker, %.1f s until that one showed\n"+
		"           progress, and %.1f s of GPU work that had to be done again",
		d.since(history, client.JobEventTypeStarted), d.since(history, client.JobEventTypeResumed), history.WastedGpuSeconds))
	return d.display.Err
}

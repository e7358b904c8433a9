package submission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// submitOptions are the flags of `reelay submit`.
type submitOptions struct {
	target                           connect.Target
	model, prompt, promptFile        string
	params                           string
	param, metadata                  []string
	duration, pace                   float64
	fps, seed                        int64
	resolution, aspectRatio          string
	tier, idempotencyKey, userID     string
	callback                         string
	runAt, expiresAt, finishBy       input.Time
	after, inputs                    []string
	image                            string
	priority, maxAttempts            int
	maxPreemptions                   int
	maxPrice                         float64
	fallback                         []string
	atMostOnce, reuse, requireRegion bool
	region, backoff                  string
	timeout                          time.Duration
	retryDelay, retryMaxDelay        time.Duration
	wait, force, asJSON              bool
	document                         output.Options
	output                           string
	fileOptions
}

// SubmitCommand returns `reelay submit`.
func SubmitCommand() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:        "submit --prompt TEXT | --model NAME | --file FILE",
		SuggestFor: []string{"create", "new", "run"},
		Short:      "Submit a video job, or many",
		Long: "Submits a video job. Without --wait it prints the job's id and exits.\n\n" +
			"Each command submits one job, even if the connection breaks and it retries: it sends an idempotency key.\n" +
			"A --param value is read as JSON if it is valid JSON, else as text; `reelay models` lists the parameters.\n\n" +
			"With --file it submits every row of a CSV file, whose header names the fields (prompt, model, tier, priority, runAt,\n" +
			"params.durationSeconds, metadata.shot and so on), or every line or element of a JSON file, each a SubmitJobInput such as\n" +
			"{\"prompt\": \"a fox\", \"params\": {\"seed\": 7}}. A refused submission does not stop the others; the exit status is\n" +
			"then 1. While the account has no room, the rest waits. The jobs are a batch, which `reelay batch NAME` follows. If you\n" +
			"run the same command again, after an interruption or with lines fixed or added, it submits only what is missing:\n" +
			"idempotency keys are derived from the batch and the content. With another --batch it submits everything again.",
		Example: "  reelay submit --prompt 'a lighthouse in a storm' --wait --output video.mp4\n" +
			"  reelay submit --prompt-file scene.txt --duration 6 --resolution 720p --param seed=7\n" +
			"  reelay submit --prompt 'the fog lifts' --image harbour.png\n" +
			"  reelay submit --model video.stitch --input clips=@intro.mp4 --input clips=job_0190…\n" +
			"  reelay submit --prompt 'the storm passes' --input referenceImage=job_0190….lastFrame\n" +
			"  reelay submit --model video.thumbnail --input video=job_0190… --param atSeconds=2 --wait\n" +
			"  reelay submit --file shots.csv --rejected shots.rejected.csv\n" +
			"  reelay submit --file shots.jsonl --json\n" +
			"  generate-prompt | reelay submit --prompt - --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.fileOptions.check(cmd); err != nil {
				return terminal.UsageError(cmd, err)
			}
			if o.file != "" {
				return o.runFile(cmd)
			}
			return o.run(cmd)
		},
	}
	o.target.AddFlags(cmd)
	o.addFlags(cmd)
	return cmd
}

func (o *submitOptions) addFlags(cmd *cobra.Command) {
	o.addJobFlags(cmd)
	o.addWaitFlags(cmd)
	o.fileOptions.addFlags(cmd.Flags())
}

// addWaitFlags adds the flags that say what happens once the job is submitted.
func (o *submitOptions) addWaitFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "show the progress and wait until the job ends")
	f.StringVarP(&o.output, "output", "o", "", "file to store the video in; implies --wait")
	f.BoolVar(&o.force, "force", false, "replace the --output file if it exists")
	o.document.AddDocumentFlags(cmd, &o.asJSON)
}

// addJobFlags adds the flags that describe the job.
func (o *submitOptions) addJobFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.prompt, "prompt", "", "what the video should show; - reads standard input")
	f.StringVar(&o.promptFile, "prompt-file", "", "file with the prompt")
	f.StringVar(&o.image, "image", "", "image that the video starts from: a `file` or an https URL")
	f.StringArrayVar(&o.inputs, "input", nil,
		"a file that the job starts from, `name=value`: @file, art_…, job_…, job_….lastFrame or an https URL; repeat it for a list")
	f.StringVar(&o.model, "model", "testcard", "model to use")
	f.StringArrayVar(&o.param, "param", nil, "a parameter of the model, `name=value`; may be repeated")
	f.StringVar(&o.params, "params", "", "parameters as a JSON object, or @file")
	f.Float64Var(&o.duration, "duration", 0, "length of the video in seconds")
	f.StringVar(&o.resolution, "resolution", "", "480p, 720p or 1080p")
	f.StringVar(&o.aspectRatio, "aspect-ratio", "", "for example 16:9")
	f.Int64Var(&o.fps, "fps", 0, "frames per second")
	f.Int64Var(&o.seed, "seed", 0, "the same seed and prompt give the same video")
	f.Float64Var(&o.pace, "pace", 0, "testcard: seconds of work per second of video; 0 is as fast as possible")
	f.StringVar(&o.tier, "tier", "", "lane to queue in, at most the account's own: "+strings.ToLower(input.OneOf(client.AllTier)))
	f.IntVar(&o.priority, "priority", 0, "order among your own jobs, -100 to 100")
	f.StringVar(&o.idempotencyKey, "idempotency-key", "", "the same key with the same request gives the same job (default: a new one)")
	f.StringArrayVar(&o.metadata, "metadata", nil, "`name=value` to keep with the job; may be repeated")
	f.StringVar(&o.userID, "user-id", "", "your id of the user who requested this job")
	f.IntVar(&o.maxAttempts, "max-attempts", 0, "failed attempts before the job fails, 1 to 20 (default: the tier's)")
	f.DurationVar(&o.timeout, "timeout", 0, "how long one attempt may run, 1s to 5h (default: the model's)")
	f.StringVar(&o.region, "region", "", "region to run in, if it has a free worker")
	f.BoolVar(&o.requireRegion, "require-region", false, "run only in --region")
	f.StringVar(&o.backoff, "backoff", "", "how the delay between attempts grows: exponential or fixed")
	f.DurationVar(&o.retryDelay, "retry-delay", 0, "delay before the first retry, 0.1s to 24h (default 10s)")
	f.DurationVar(&o.retryMaxDelay, "retry-max-delay", 0, "longest delay before a retry (default 5m)")
	f.BoolVar(&o.atMostOnce, "at-most-once", false, "never start the job twice: if its worker is lost, it fails")
	f.StringSliceVar(&o.fallback, "fallback", nil,
		"up to 5 `models` that may render the job instead, in order, such as a,b (default: the model's)")
	f.BoolVar(&o.reuse, "reuse", false, "accept the result of an equal job that has completed")
	f.IntVar(&o.maxPreemptions, "max-preemptions", 0, "lost spot workers after which a run continues on on-demand capacity only, 0 to 1000")
	f.Float64Var(&o.maxPrice, "max-price-per-hour", 0, "run only where a worker costs at most so many US dollars per hour")
	f.Var(&o.finishBy, "finish-by",
		"be complete by then, such as 2027-01-02T15:04:05Z or 2h (from now): without slack, run on on-demand capacity only")
	f.Var(&o.runAt, "run-at", "start no earlier than this, such as 2027-01-02T15:04:05Z or 90m (from now)")
	f.Var(&o.expiresAt, "expires-at", "fail if no worker has started the job by then, such as 2027-01-02T15:04:05Z or 2h (from now)")
	f.StringArrayVar(&o.after, "after", nil, "`job` that must complete first; may be repeated")
	f.StringVar(&o.callback, "callback", "", "`URL` that receives a webhook when the job ends; see reelay webhooks rotate --account")
}

// submitted is what --json prints.
type submitted struct {
	Job            *client.Job `json:"job"`
	Deduplicated   bool        `json:"deduplicated"`
	IdempotencyKey string      `json:"idempotencyKey"`
	// Deadline is what was expected of finishBy at the submit.
	Deadline *client.Deadline `json:"deadline,omitempty"`
	File     *jobs.SavedFile  `json:"file,omitempty"`
}

func (o *submitOptions) run(cmd *cobra.Command) error {
	in, inputs, err := o.input(cmd)
	if err != nil {
		return terminal.UsageError(cmd, err)
	}
	if o.output != "" {
		o.wait = true
		if err := output.CheckFile(o.output, o.force); err != nil {
			return err
		}
	}
	c, err := o.target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	o.paramTexts(cmd.Context(), c, &in)
	if in.DependsOn, err = connect.FullIDs(cmd.Context(), c, "job", in.DependsOn); err != nil {
		return o.target.Explain(err)
	}
	again := "--idempotency-key " + *in.IdempotencyKey + o.timesAgain()
	uploaded, err := o.attach(cmd.Context(), c, &in, inputs)
	if err != nil {
		return err
	}
	submission, err := sendJob(cmd.Context(), c, in, again+uploaded)
	if err != nil {
		return err
	}
	answer := submitted{Job: &submission.Job, Deduplicated: submission.Deduplicated, IdempotencyKey: *in.IdempotencyKey,
		Deadline: submission.Deadline}
	if why := jobs.Infeasible(answer.Deadline); why != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "The job is accepted, but "+strings.TrimPrefix(why, "the job ")+".")
	}
	if !o.wait {
		return o.print(cmd.OutOrStdout(), answer)
	}
	return o.await(cmd, c, answer)
}

// await watches the job until it ends and downloads the video.
func (o *submitOptions) await(cmd *cobra.Command, c *client.Client, answer submitted) error {
	d := progress.DisplayFor(cmd, cmd.ErrOrStderr())
	d.Silent = o.asJSON && !d.TTY
	d.Note(answer.Job.Id + " is accepted")
	job, err := progress.Follow(cmd.Context(), c, answer.Job.Id, d, d.WithPreviews(cmd.Context(), c))
	if err != nil {
		return err
	}
	answer.Job = job
	failure := progress.Ending(job)
	if failure == nil && o.output != "" {
		if answer.File, err = jobs.SaveVideo(cmd.Context(), c, job, o.output, d); err != nil {
			return err
		}
	}
	return errors.Join(o.print(cmd.OutOrStdout(), answer), failure)
}

func (o *submitOptions) print(out io.Writer, answer submitted) error {
	switch {
	case o.asJSON:
		return o.document.Print(output.ScreenOf(out), answer, nil)
	case answer.File != nil:
		_, err := fmt.Fprintln(out, answer.File)
		return err
	}
	_, err := fmt.Fprintln(out, answer.Job.Id)
	return err
}

func (o *submitOptions) input(cmd *cobra.Command) (in client.SubmitJobInput, inputs []inputFlag, err error) {
	in = client.SubmitJobInput{Model: o.model, IdempotencyKey: &o.idempotencyKey}
	if o.idempotencyKey == "" {
		o.idempotencyKey = "cli-" + uuid.NewString()
	}
	prompt, err := o.readPrompt(cmd)
	if err != nil {
		return in, nil, err
	}
	if prompt != "" {
		in.Prompt = &prompt
	}
	params, err := input.ParseFields(o.params, o.param, cmd.InOrStdin())
	if err != nil {
		return in, nil, fmt.Errorf("the parameters cannot be read: %w", err)
	}
	if err := o.shorthands(cmd, params); err != nil {
		return in, nil, err
	}
	if inputs, err = o.readInputs(params); err != nil {
		return in, nil, err
	}
	in.Params = params.Message()
	metadata, err := input.ParseFields("", o.metadata, nil)
	if err != nil {
		return in, nil, fmt.Errorf("the metadata cannot be read: %w", err)
	}
	in.Metadata = metadata.Message()
	return in, inputs, o.limits(cmd, &in)
}

// paramTexts writes the values of --param that the model takes as texts as texts.
func (o *submitOptions) paramTexts(ctx context.Context, c *client.Client, in *client.SubmitJobInput) {
	if len(o.param) == 0 || in.Params == nil {
		return
	}
	params := input.Fields{}
	_ = json.Unmarshal(*in.Params, &params) // it was made of fields
	texts(ctx, c, in.Model, params, o.param)
	in.Params = params.Message()
}

// limits copies the flags that were given. The API chooses the others.
func (o *submitOptions) limits(cmd *cobra.Command, in *client.SubmitJobInput) error {
	given := cmd.Flags().Changed
	if given("priority") {
		in.Priority = &o.priority
	}
	if given("max-attempts") {
		in.MaxAttempts = &o.maxAttempts
	}
	if given("at-most-once") {
		in.AtMostOnce = &o.atMostOnce
	}
	if given("fallback") {
		in.Fallback = o.fallback
	}
	if given("reuse") {
		in.Reuse = &o.reuse
	}
	if given("max-preemptions") {
		in.MaxPreemptions = &o.maxPreemptions
	}
	if given("finish-by") {
		in.FinishBy = &o.finishBy.At
	}
	if given("max-price-per-hour") {
		if math.IsNaN(o.maxPrice) || math.IsInf(o.maxPrice, 0) { // JSON has no such numbers
			return fmt.Errorf("--max-price-per-hour must be from 0 to 10000 USD; it is %g", o.maxPrice)
		}
		in.MaxPricePerHour = &o.maxPrice
	}
	if given("user-id") {
		in.UserId = &o.userID
	}
	if o.callback != "" {
		in.CallbackUrl = &o.callback
	}
	if given("run-at") {
		in.RunAt = &o.runAt.At
	}
	if given("expires-at") {
		in.ExpiresAt = &o.expiresAt.At
	}
	in.DependsOn = o.after
	if err := o.placeAndRetry(cmd, in); err != nil {
		return err
	}
	if !given("tier") {
		return nil
	}
	tier, err := input.ParseEnum("tier", o.tier, client.AllTier)
	in.Tier = &tier
	return err
}

// placeAndRetry copies the flags about the region, the time limit and the retries.
func (o *submitOptions) placeAndRetry(cmd *cobra.Command, in *client.SubmitJobInput) error {
	given := cmd.Flags().Changed
	if given("region") {
		in.Region = &o.region
	}
	if given("require-region") {
		in.RequireRegion = &o.requireRegion
	}
	if given("timeout") {
		if o.timeout%time.Second != 0 {
			return fmt.Errorf("--timeout is %s: it must be in whole seconds", o.timeout)
		}
		in.TimeoutSeconds = new(int(o.timeout.Seconds()))
	}
	if !given("backoff") && !given("retry-delay") && !given("retry-max-delay") {
		return nil
	}
	in.Retry = &client.RetryPolicyInput{}
	if given("backoff") {
		backoff, err := input.ParseEnum("backoff", o.backoff, client.AllBackoff)
		if err != nil {
			return err
		}
		in.Retry.Backoff = &backoff
	}
	if given("retry-delay") {
		in.Retry.InitialDelaySeconds = new(o.retryDelay.Seconds())
	}
	if given("retry-max-delay") {
		in.Retry.MaxDelaySeconds = new(o.retryMaxDelay.Seconds())
	}
	return nil
}

// timesAgain returns how to name the times that were given as durations in another command: there,
// the same duration is another time, which the idempotency key does not allow.
func (o *submitOptions) timesAgain() (again string) {
	for _, flag := range []struct {
		name  string
		value *input.Time
	}{{"finish-by", &o.finishBy}, {"run-at", &o.runAt}, {"expires-at", &o.expiresAt}} {
		if flag.value.Duration != "" {
			again += fmt.Sprintf(" and --%s %s instead of %s", flag.name, flag.value, flag.value.Duration)
		}
	}
	return again
}

// shorthands are the flags for parameters that most models have.
func (o *submitOptions) shorthands(cmd *cobra.Command, params input.Fields) error {
	for _, s := range []struct {
		flag, param string
		value       any
	}{
		{"duration", "durationSeconds", o.duration},
		{"resolution", "resolution", o.resolution},
		{"aspect-ratio", "aspectRatio", o.aspectRatio},
		{"fps", "fps", o.fps},
		{"seed", "seed", o.seed},
		{"pace", "pace", o.pace},
	} {
		if !cmd.Flags().Changed(s.flag) {
			continue
		}
		if err := params.Set(s.param, s.value); err != nil {
			return err
		}
	}
	return nil
}

func (o *submitOptions) readPrompt(cmd *cobra.Command) (string, error) {
	inline, fromFile := cmd.Flags().Changed("prompt"), o.promptFile != ""
	switch {
	case inline && fromFile:
		return "", errors.New("--prompt and --prompt-file are both given: use one of them")
	case fromFile:
		text, err := input.ReadText(o.promptFile, cmd.InOrStdin())
		return strings.TrimRight(text, "\r\n"), err
	case o.prompt == "-":
		text, err := input.ReadText("-", cmd.InOrStdin())
		return strings.TrimRight(text, "\r\n"), err
	case !inline && (cmd.Flags().Changed("model") || len(o.inputs) > 0):
		return "", nil // the API knows whether the model needs one
	case !inline:
		return "", errors.New("there is no prompt: describe the video with --prompt")
	case !utf8.ValidString(o.prompt):
		return "", errors.New("the prompt is not valid UTF-8")
	}
	return o.prompt, nil
}

// sendJob submits the job. If the call fails but the job may exist, the error says how to
// find out: with the same command and the flags in again.
func sendJob(ctx context.Context, c *client.Client, in client.SubmitJobInput, again string) (*client.Submission, error) {
	submission, err := c.SubmitJob(ctx, in)
	if err == nil {
		return submission, nil
	}
	e, ok := errors.AsType[*client.Error](err)
	err = Unanswered(ctx, err)
	switch {
	case ok && e.Unsettled:
		err = fmt.Errorf("%w\nThe job may have been accepted. Repeat the command with %s: it finds the job, or submits it once", err, again)
	case ctx.Err() != nil:
		err = fmt.Errorf("%w\nThe job was not accepted", err)
	}
	if ctx.Err() != nil {
		return nil, terminal.StatusError(terminal.ExitInterrupted, err)
	}
	return nil, err
}

// Unanswered returns the error of a failed call. If the user stopped it, the error says
// what was known by then.
func Unanswered(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return connect.WithAdvice(err)
	case errors.Is(err, context.Canceled):
		return errors.New("stopped before an answer came")
	}
	return fmt.Errorf("stopped before a retry: %w", err)
}

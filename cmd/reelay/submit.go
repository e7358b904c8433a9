package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

// submitOptions is what `reelay submit` may be told.
type submitOptions struct {
	target                       target
	model, prompt, promptFile    string
	params                       string
	param, metadata              []string
	duration, pace               float64
	fps, seed                    int64
	resolution, aspectRatio      string
	tier, idempotencyKey, userID string
	callback                     string
	runAt, expiresAt             time.Time
	after                        []string
	file, image                  string
	priority, maxAttempts        int
	wait, force, asJSON          bool
	output                       string
}

func submitCommand() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "submit --prompt TEXT | --file FILE",
		Short: "Ask for a film, or for many",
		Long: "Asks for a film. Without --wait it prints the job's id and leaves.\n\n" +
			"Each call asks once, however often the connection breaks: it carries an idempotency key of its own.\n" +
			"A --param value is taken as JSON if it is that, else as text; `reelay models` tells which there are.\n\n" +
			"With --file it submits all that a file holds, each line or element a SubmitJobInput such as\n" +
			"{\"prompt\": \"a fox\", \"params\": {\"seed\": 7}}. One that is refused stops no other; the status is then 1. Their\n" +
			"idempotency keys come from what they hold: the same command again, after an interruption or with lines\n" +
			"mended or added, submits only what was not accepted. Under another --idempotency-key all is new.",
		Example: "  reelay submit --prompt 'a lighthouse in a storm' --wait --output film.mp4\n" +
			"  reelay submit --prompt-file scene.txt --duration 6 --resolution 720p --param seed=7\n" +
			"  reelay submit --prompt 'the fog lifts' --image harbour.png\n" +
			"  reelay submit --file shots.jsonl --json\n" +
			"  generate-prompt | reelay submit --prompt - --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.file != "" {
				return o.runFile(cmd)
			}
			return o.run(cmd)
		},
	}
	o.target.addFlags(cmd)
	o.addFlags(cmd)
	return cmd
}

func (o *submitOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.prompt, "prompt", "", "what the film shall show; - reads it from the standard input")
	f.StringVar(&o.promptFile, "prompt-file", "", "file that holds the prompt")
	f.StringVar(&o.file, "file", "", "file of many submissions, one in JSON on each line or all in one array; - reads the standard input")
	f.StringVar(&o.image, "image", "", "image that the film begins from: a `file`, or an https URL")
	f.StringVar(&o.model, "model", "testcard", "model that renders it")
	f.StringArrayVar(&o.param, "param", nil, "a parameter of the model, `name=value`; may be repeated")
	f.StringVar(&o.params, "params", "", "parameters as a JSON object, or @file")
	f.Float64Var(&o.duration, "duration", 0, "seconds of film")
	f.StringVar(&o.resolution, "resolution", "", "480p, 720p or 1080p")
	f.StringVar(&o.aspectRatio, "aspect-ratio", "", "for example 16:9")
	f.Int64Var(&o.fps, "fps", 0, "frames per second")
	f.Int64Var(&o.seed, "seed", 0, "the same seed and prompt give the same film")
	f.Float64Var(&o.pace, "pace", 0, "testcard: seconds of work per second of video; 0 is as fast as possible")
	f.StringVar(&o.tier, "tier", "", "lane to queue in, at most the account's own: "+strings.ToLower(oneOf(client.AllTier)))
	f.IntVar(&o.priority, "priority", 0, "order among your own jobs, -100 to 100")
	f.StringVar(&o.idempotencyKey, "idempotency-key", "", "the same key with the same request gives the same job (default: a new one)")
	f.StringArrayVar(&o.metadata, "metadata", nil, "`name=value` to keep with the job; may be repeated")
	f.StringVar(&o.userID, "user-id", "", "your own name for the user behind this job")
	f.IntVar(&o.maxAttempts, "max-attempts", 0, "tries before the job fails, 1 to 20 (default: the tier's)")
	f.TimeVar(&o.runAt, "run-at", time.Time{}, []string{time.RFC3339}, "start no earlier than this, for example 2027-01-02T15:04:05Z")
	f.TimeVar(&o.expiresAt, "expires-at", time.Time{}, []string{time.RFC3339}, "fail if no worker has started it by then")
	f.StringArrayVar(&o.after, "after", nil, "`job` that must be complete before; may be repeated")
	f.StringVar(&o.callback, "callback", "", "`URL` that is told of the job's end; see reelay webhooks rotate --account")
	f.BoolVar(&o.wait, "wait", false, "show the progress and wait for the end")
	f.StringVarP(&o.output, "output", "o", "", "file to store the film in; implies --wait")
	f.BoolVar(&o.force, "force", false, "replace the --output file if it is there")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON document")
}

// submitted is what --json prints.
type submitted struct {
	Job            *client.Job `json:"job"`
	Deduplicated   bool        `json:"deduplicated"`
	IdempotencyKey string      `json:"idempotencyKey"`
	File           *savedFile  `json:"file,omitempty"`
}

func (o *submitOptions) run(cmd *cobra.Command) error {
	in, err := o.input(cmd)
	if err != nil {
		return &usageError{cmd, err}
	}
	if o.output != "" {
		o.wait = true
		if err := checkOutput(o.output, o.force); err != nil {
			return err
		}
	}
	c, err := o.target.client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	again := "--idempotency-key " + *in.IdempotencyKey
	if id, err := o.upload(cmd.Context(), c, &in); err != nil {
		return err
	} else if id != "" {
		again += " and --param referenceImage=" + id + " instead of --image"
	}
	submission, err := submit(cmd.Context(), c, in, again)
	if err != nil {
		return err
	}
	answer := submitted{Job: &submission.Job, Deduplicated: submission.Deduplicated, IdempotencyKey: *in.IdempotencyKey}
	if !o.wait {
		return o.print(cmd.OutOrStdout(), answer)
	}
	return o.await(cmd, c, answer)
}

// await follows the job to its end and fetches the film.
func (o *submitOptions) await(cmd *cobra.Command, c *client.Client, answer submitted) error {
	d := newDisplay(cmd.ErrOrStderr())
	d.silent = o.asJSON && !d.tty
	d.note(answer.Job.Id + " is accepted")
	job, err := follow(cmd.Context(), c, answer.Job.Id, d, d.job)
	if err != nil {
		return err
	}
	answer.Job = job
	failure := ending(job)
	if failure == nil && o.output != "" {
		if answer.File, err = save(cmd.Context(), c, job, o.output, d); err != nil {
			return err
		}
	}
	return errors.Join(o.print(cmd.OutOrStdout(), answer), failure)
}

func (o *submitOptions) print(out io.Writer, answer submitted) error {
	switch {
	case o.asJSON:
		return printJSON(out, answer)
	case answer.File != nil:
		_, err := fmt.Fprintln(out, answer.File)
		return err
	}
	_, err := fmt.Fprintln(out, answer.Job.Id)
	return err
}

func (o *submitOptions) input(cmd *cobra.Command) (client.SubmitJobInput, error) {
	in := client.SubmitJobInput{Model: o.model, IdempotencyKey: &o.idempotencyKey}
	if o.idempotencyKey == "" {
		o.idempotencyKey = "cli-" + uuid.NewString()
	}
	prompt, err := o.readPrompt(cmd)
	if err != nil {
		return in, err
	}
	in.Prompt = &prompt
	params, err := parseFields(o.params, o.param, cmd.InOrStdin())
	if err != nil {
		return in, fmt.Errorf("the parameters cannot be read: %w", err)
	}
	if err := o.shorthands(cmd, params); err != nil {
		return in, err
	}
	if err := o.refer(params); err != nil {
		return in, err
	}
	in.Params = params.message()
	metadata, err := parseFields("", o.metadata, nil)
	if err != nil {
		return in, fmt.Errorf("the metadata cannot be read: %w", err)
	}
	in.Metadata = metadata.message()
	return in, o.limits(cmd, &in)
}

// limits copies the flags that were given; what was not is the API's to choose.
func (o *submitOptions) limits(cmd *cobra.Command, in *client.SubmitJobInput) error {
	given := cmd.Flags().Changed
	if given("priority") {
		in.Priority = &o.priority
	}
	if given("max-attempts") {
		in.MaxAttempts = &o.maxAttempts
	}
	if given("user-id") {
		in.UserId = &o.userID
	}
	if o.callback != "" {
		in.CallbackUrl = &o.callback
	}
	if given("run-at") {
		in.RunAt = &o.runAt
	}
	if given("expires-at") {
		in.ExpiresAt = &o.expiresAt
	}
	in.DependsOn = o.after
	if !given("tier") {
		return nil
	}
	tier, err := parseEnum("tier", o.tier, client.AllTier)
	in.Tier = &tier
	return err
}

// shorthands are the flags for parameters that most models have.
func (o *submitOptions) shorthands(cmd *cobra.Command, params fields) error {
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
		if err := params.set(s.param, s.value); err != nil {
			return err
		}
	}
	return nil
}

func (o *submitOptions) readPrompt(cmd *cobra.Command) (string, error) {
	inline, fromFile := cmd.Flags().Changed("prompt"), o.promptFile != ""
	switch {
	case inline && fromFile:
		return "", errors.New("--prompt and --prompt-file exclude each other")
	case fromFile:
		text, err := readText(o.promptFile, cmd.InOrStdin())
		return strings.TrimRight(text, "\r\n"), err
	case o.prompt == "-":
		text, err := readText("-", cmd.InOrStdin())
		return strings.TrimRight(text, "\r\n"), err
	case !inline:
		return "", errors.New("there is no prompt: say with --prompt what the film shall show")
	case !utf8.ValidString(o.prompt):
		return "", errors.New("the prompt is not valid UTF-8")
	}
	return o.prompt, nil
}

// submit asks for a job. If that fails although the job may exist, the error
// tells how to find out: by the same command with what again says.
func submit(ctx context.Context, c *client.Client, in client.SubmitJobInput, again string) (*client.Submission, error) {
	submission, err := c.SubmitJob(ctx, in)
	if err == nil {
		return submission, nil
	}
	e, ok := errors.AsType[*client.Error](err)
	err = unanswered(ctx, err)
	switch {
	case ok && e.Unsettled:
		err = fmt.Errorf("%w\nThe job may have been accepted. The same command with %s finds it, or submits it, once", err, again)
	case ctx.Err() != nil:
		err = fmt.Errorf("%w\nNothing was accepted", err)
	}
	if ctx.Err() != nil {
		return nil, &statusError{exitInterrupted, err}
	}
	return nil, err
}

// unanswered is the error of a call that failed. Of one that was stopped it says
// what had come of it by then.
func unanswered(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return apiError(err)
	case errors.Is(err, context.Canceled):
		return errors.New("stopped before an answer came")
	}
	return fmt.Errorf("stopped while it waited to try again: %w", err)
}

// checkOutput refuses, before anything is asked for, a file that could not be
// written in the end.
func checkOutput(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder: name a file in it", path)
	case err == nil && !force:
		return fmt.Errorf("%s is there already: choose another file, or replace it with --force", path)
	}
	return checkFolder(path)
}

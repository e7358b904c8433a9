package submission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// draftOptions are the flags of `reelay draft`.
type draftOptions struct {
	submitOptions
	steps, count int
	seeds        []int64
	sheet        string
}

// DraftCommand returns `reelay draft`.
func DraftCommand() *cobra.Command {
	var o draftOptions
	cmd := &cobra.Command{
		Use:   "draft --prompt TEXT --steps N",
		Short: "Make drafts with different seeds, and show them side by side",
		Long: "Submits drafts of one prompt that differ only in their seeds, waits for them, and shows their previews\n" +
			"as a contact sheet: in a PNG file, and on a terminal with colours of 24 bits (COLORTERM=truecolor).\n" +
			"A draft ends after --steps steps, at a fraction of the cost of a video. `reelay continue` then makes the\n" +
			"video of the one that you pick, from the step at which its draft ended.",
		Example: "  reelay draft --prompt 'a fox in the snow' --seeds 8 --steps 6\n" +
			"  reelay draft --prompt 'a fox in the snow' --seed-list 7,11,13 --steps 6 --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.target.AddFlags(cmd)
	o.addJobFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.steps, "steps", 0, "the step after which the drafts end, from 1 to the steps of the whole video (required)")
	f.IntVar(&o.count, "seeds", 8, "number of drafts, 1 to 64; their seeds follow --seed, or a random one")
	f.Int64SliceVar(&o.seeds, "seed-list", nil, "the seeds of the drafts, instead of --seeds")
	f.StringVar(&o.sheet, "sheet", "", "PNG file for the contact sheet; replaced if it exists (default takes-….png)")
	o.document.AddDocumentFlags(cmd, &o.asJSON)
	cmd.AddCommand(draftUsageCommand())
	return cmd
}

func draftUsageCommand() *cobra.Command {
	var days int
	cmd := new(connect.Call).Command(&cobra.Command{
		Use:   "usage",
		Short: "Show how many GPU seconds drafts took, by what became of them",
		Long: "Shows how many drafts there were in the last days and how many GPU seconds they took: drafts that can\n" +
			"still be continued, drafts that were continued, and drafts that were discarded or expired. An operator sees all accounts.",
		Args: cobra.NoArgs,
	}, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		usage, err := c.DraftUsage(ctx, days)
		return usage, func(out io.Writer) error {
			var rows [][]string
			for _, r := range []struct {
				name string
				sum  client.DraftSum
			}{{"undecided", usage.Undecided}, {"continued", usage.Continued}, {"discarded", usage.Discarded}} {
				rows = append(rows, []string{r.name, strconv.Itoa(r.sum.Drafts), fmt.Sprintf("%.1f s", r.sum.GpuSeconds)})
			}
			return output.WriteRows(out, []string{"OUTCOME", "DRAFTS", "GPU TIME"}, rows)
		}, err
	})
	cmd.Flags().IntVar(&days, "days", 30, "how many days to look back, 1 to 90")
	return cmd
}

func (o *draftOptions) run(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("steps") {
		return terminal.UsageError(cmd, errors.New("--steps is missing: say after how many steps the drafts end"))
	}
	if o.count == 0 { // the API's default would replace it
		return terminal.UsageError(cmd, errors.New("--seeds must be from 1 to 64"))
	}
	in, inputs, err := o.input(cmd)
	if err != nil {
		return terminal.UsageError(cmd, err)
	}
	in.Draft = &client.DraftInput{Steps: o.steps}
	if o.sheet != "" {
		if err := output.CheckFile(o.sheet, true); err != nil {
			return err
		}
	}
	c, err := o.target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	o.paramTexts(cmd.Context(), c, &in)
	if _, err := o.attach(cmd.Context(), c, &in, inputs); err != nil {
		return err
	}
	made, err := c.SubmitTakes(cmd.Context(), in, o.count, o.seeds)
	if err != nil {
		return Unanswered(cmd.Context(), err)
	}
	for _, result := range made.Results {
		if result.Job == nil && result.Error != nil {
			return fmt.Errorf("%d of %d drafts were accepted; the next one was refused: %s", made.Accepted, len(made.Results),
				output.Clean(result.Error.Message))
		}
	}
	id := *made.Results[0].Job.Draft.Takes
	return showTakes(cmd, c, id, o.sheet, &o.document)
}

// TakesCommand returns `reelay takes`.
func TakesCommand() *cobra.Command {
	var t connect.Target
	var sheet string
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "takes ID",
		Short: "Show the drafts of one `reelay draft` side by side",
		Long:  "Waits until the drafts of one `reelay draft` have ended, and shows their previews as a contact sheet.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return showTakes(cmd, c, args[0], sheet, &document)
		},
	}
	t.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&sheet, "sheet", "", "PNG file for the contact sheet; replaced if it exists (default takes-….png)")
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

// shownTakes is what --json prints.
type shownTakes struct {
	Takes  string       `json:"takes"`
	Sheet  string       `json:"sheet,omitempty"`
	Drafts []client.Job `json:"drafts"`
}

// showTakes waits for drafts, shows their contact sheet and lists them.
func showTakes(cmd *cobra.Command, c *client.Client, id, sheet string, document *output.Options) error {
	d := progress.DisplayFor(cmd, cmd.ErrOrStderr())
	d.Silent = !document.ForPeople() && !d.TTY
	drafts, err := awaitTakes(cmd.Context(), c, id, d)
	if err != nil {
		return err
	}
	shown := shownTakes{Takes: id, Drafts: drafts}
	pictures, problem := takePictures(cmd.Context(), c, drafts)
	if problem != nil {
		d.Note("Not all previews can be shown: " + problem.Error())
	}
	if len(pictures) > 0 {
		drawn := contactSheet(pictures)
		if shown.Sheet, err = writeSheet(drawn, sheet, id); err != nil {
			return err
		}
		if d.Pictures {
			for _, row := range progress.Cells(drawn, min(d.Width()-1, sheetCells), sheetRows) {
				d.Note(row)
			}
		}
	}
	if !document.ForPeople() {
		err = document.Print(output.ScreenOf(cmd.OutOrStdout()), shown, nil)
	} else {
		err = shown.print(cmd.OutOrStdout())
	}
	return errors.Join(err, failedTakes(drafts))
}

// takesEvery is how often the states of drafts are read.
const takesEvery = time.Second

// awaitTakes waits until all drafts have ended.
func awaitTakes(ctx context.Context, c *client.Client, id string, d *progress.Display) ([]client.Job, error) {
	defer d.Erase()
	said := ""
	for ticker := time.NewTicker(takesEvery); ; {
		drafts, err := c.Takes(ctx, id)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped watching; the drafts continue. Show them with `reelay takes %s`", id)
		}
		if err != nil {
			return nil, connect.WithAdvice(err)
		}
		if len(drafts) == 0 {
			return nil, fmt.Errorf("there are no drafts of the id %s", id)
		}
		ended, percent := 0, 0.0
		for _, draft := range drafts {
			percent += draft.Progress.Percent / float64(len(drafts))
			if draft.Status.Terminal() {
				ended++
			}
		}
		if ended == len(drafts) {
			ticker.Stop()
			return drafts, nil
		}
		if line := fmt.Sprintf("%3.0f %%  %d of %d drafts have ended", percent, ended, len(drafts)); d.TTY {
			d.Replace(line)
		} else if line != said {
			said = line
			d.Note(line)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// failedTakes returns an error that names the drafts that did not complete.
func failedTakes(drafts []client.Job) error {
	var failed []error
	for _, draft := range drafts {
		if err := progress.Ending(&draft); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (s *shownTakes) print(out io.Writer) error {
	var best *client.Job
	for i, draft := range s.Drafts {
		state := string(draft.Status)
		if draft.Draft != nil && draft.Draft.ContinuedBy != nil {
			state = "continued by " + draft.Draft.ContinuedBy.Id
		}
		if _, err := fmt.Fprintf(out, "%3d  %s  seed %s  %s\n", i+1, draft.Id, seedOf(&draft), state); err != nil {
			return err
		}
		if best == nil && draft.Status == client.JobStatusCompleted {
			best = &s.Drafts[i]
		}
	}
	if s.Sheet != "" {
		fmt.Fprintf(out, "\nContact sheet: %s\n", s.Sheet)
	}
	if best == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "Make the video of one: reelay continue %s --output video.mp4\n", best.Id)
	return err
}

// ContinueCommand returns `reelay continue`.
func ContinueCommand() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "continue JOB",
		Short: "Make the video of a draft",
		Long: "Submits the job that makes the video of a completed draft. It begins where the draft ended, with the same\n" +
			"prompt and parameters. A draft is continued once: another call names the same job.",
		Example: "  reelay continue job_01937d3e-… --output video.mp4",
		Args:    jobs.JobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
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
			id, err := connect.FullID(cmd.Context(), c, "job", args[0])
			if err != nil {
				return o.target.Explain(err)
			}
			submission, err := c.ContinueJob(cmd.Context(), id)
			if err != nil {
				return Unanswered(cmd.Context(), err)
			}
			answer := submitted{Job: &submission.Job, Deduplicated: submission.Deduplicated}
			if !o.wait {
				return o.print(cmd.OutOrStdout(), answer)
			}
			return o.await(cmd, c, answer)
		},
	}
	o.target.AddFlags(cmd)
	o.addWaitFlags(cmd)
	return cmd
}

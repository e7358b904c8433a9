package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// downloadOptions are the flags of `reelay download`.
type downloadOptions struct {
	target        connect.Target
	kind, output  string
	force, asJSON bool
	document      output.Options
}

// DownloadCommand returns `reelay download`.
func DownloadCommand() *cobra.Command {
	var o downloadOptions
	cmd := &cobra.Command{
		Use:        "download JOB",
		SuggestFor: []string{"dl", "fetch"},
		Short:      "Download what a job made, and verify it",
		Long: "Downloads a file of a job: its video, or if it has none its thumbnail, its output as JSON, or its preview, in this\n" +
			"order. --kind names another. The file appears when it is complete and its checksum is right. An interrupted\n" +
			"download resumes where it stopped.",
		Example: "  reelay download job_01937d3e-… --output video.mp4\n  reelay download job_01937d3e-… --kind output\n" +
			"  reelay download job_01937d3e-… --kind log",
		Args: JobArg,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.kind != "" && kindNamed(o.kind) == nil {
				return terminal.UsageError(cmd, fmt.Errorf("--kind is %q: it must be %s", o.kind, input.OneOf(KindNames())))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.output != "" {
				if err := output.CheckFile(o.output, o.force); err != nil {
					return err
				}
			}
			c, err := o.target.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			file, err := o.download(cmd, c, args[0])
			if err != nil {
				return err
			}
			if o.asJSON {
				return o.document.Print(output.ScreenOf(cmd.OutOrStdout()), file, nil)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
			return err
		},
	}
	o.target.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.kind, "kind", "", "what to download: "+input.OneOf(KindNames()))
	f.StringVarP(&o.output, "output", "o", "", "file to store it in (default JOB.mp4 for a video, else JOB.KIND and its extension)")
	f.BoolVar(&o.force, "force", false, "replace the file if it exists")
	o.document.AddDocumentFlags(cmd, &o.asJSON)
	return cmd
}

func (o *downloadOptions) download(cmd *cobra.Command, c *client.Client, id string) (*SavedFile, error) {
	id, err := connect.FullID(cmd.Context(), c, "job", id)
	if err != nil {
		return nil, o.target.Explain(err)
	}
	job, err := c.JobHistory(cmd.Context(), id)
	if err != nil {
		return nil, o.target.Explain(err)
	}
	k, err := chooseKind(job, o.kind)
	if err != nil {
		return nil, err
	}
	artifact := k.artifact(job)
	path := o.output
	if path == "" {
		path = k.fileName(job.Id, artifact)
		if err := output.CheckFile(path, o.force); err != nil {
			return nil, err
		}
	}
	if artifact == nil {
		return saveOutput(job, path)
	}
	t := transfer{job: job.Id, kind: k, path: path, display: progress.DisplayFor(cmd, cmd.ErrOrStderr())}
	file, err := t.save(cmd.Context(), c, artifact)
	if err == nil && k.name == "video" {
		file.DurationSeconds = videoSeconds(&job.Job)
	}
	return file, err
}

// chooseKind returns what to download, or an error that says what there is.
func chooseKind(job *client.JobHistory, name string) (*kind, error) {
	var has []string
	for _, k := range kinds {
		if k.of(job) {
			has = append(has, k.name)
		}
	}
	if name == "" && job.Status == client.JobStatusCompleted {
		for _, k := range kinds {
			if k.byDefault && k.of(job) {
				return &k, nil
			}
		}
	}
	if slices.Contains(has, name) {
		return kindNamed(name), nil
	}
	what, there := cmp.Or(name, "result"), ""
	if len(has) > 0 {
		there = ". It has: " + strings.Join(has, ", ") + " (--kind)"
	}
	if !job.Status.Terminal() {
		return nil, fmt.Errorf("%s has no %s yet: it is %s at %.0f %%. Follow it with `reelay watch %s`%s",
			job.Id, what, job.Status, job.Progress.Percent, job.Id, there)
	}
	if err := progress.Ending(&job.Job); err != nil {
		return nil, fmt.Errorf("%w%s", err, there)
	}
	return nil, fmt.Errorf("%s has no %s%s", job.Id, what, there)
}

// saveOutput stores the JSON that a job made.
func saveOutput(job *client.JobHistory, path string) (*SavedFile, error) {
	data := append(slices.Clone(*job.Output), '\n')
	sum, size, err := client.Checksum(strings.NewReader(string(data)))
	if err != nil {
		return nil, err
	}
	part := filepath.Join(filepath.Dir(path), "."+job.Id+".output.part")
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(part, path); err != nil {
		return nil, err
	}
	return &SavedFile{Path: path, Kind: outputKind, SizeBytes: size, Checksum: sum}, nil
}

// SavedFile is a downloaded and verified file.
type SavedFile struct {
	Path            string  `json:"path"`
	Kind            string  `json:"kind"`
	SizeBytes       int64   `json:"sizeBytes"`
	Checksum        string  `json:"checksum"`
	DurationSeconds float64 `json:"durationSeconds,omitempty"`
}

func (f *SavedFile) String() string {
	text := f.Path + "  "
	if f.DurationSeconds > 0 {
		text += fmt.Sprintf("%.1f s  ", f.DurationSeconds)
	}
	return text + fmt.Sprintf("%d bytes  crc32c %s", f.SizeBytes, f.Checksum)
}

// staleLinks is how many links may expire during one download.
const staleLinks = 5

// transfer is the download of one file of a job.
type transfer struct {
	job     string
	kind    *kind
	path    string
	display *progress.Display
}

// save downloads and verifies the artifact. If the link expires, it continues with a new one.
func (t *transfer) save(ctx context.Context, c *client.Client, a *client.Artifact) (*SavedFile, error) {
	defer t.display.Erase()
	for try := 1; ; try++ {
		err := c.Download(ctx, a, t.path, t.display.Transfer)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped; `reelay download %s --kind %s --output %s` resumes it", t.job, t.kind.name, t.path)
		}
		if client.ErrorCode(err) != client.CodeForbidden || try == staleLinks {
			return nil, connect.WithAdvice(err)
		}
		job, err := c.JobHistory(ctx, t.job)
		if err != nil {
			return nil, connect.WithAdvice(err)
		}
		if a = t.kind.artifact(job); a == nil {
			return nil, fmt.Errorf("%s no longer has its %s", t.job, t.kind.name)
		}
	}
	return &SavedFile{Path: t.path, Kind: t.kind.name, SizeBytes: a.SizeBytes, Checksum: a.Checksum}, nil
}

// SaveVideo downloads a job's video to path and verifies it.
func SaveVideo(ctx context.Context, c *client.Client, job *client.Job, path string, d *progress.Display) (*SavedFile, error) {
	if job.Result == nil {
		return nil, fmt.Errorf("%s has no video. `reelay download %s` fetches what it made", job.Id, job.Id)
	}
	t := transfer{job: job.Id, kind: kindNamed("video"), path: path, display: d}
	file, err := t.save(ctx, c, job.Result)
	if err == nil {
		file.DurationSeconds = videoSeconds(job)
	}
	return file, err
}

// videoSeconds returns the length of a job's video, if its runtime reported it.
func videoSeconds(job *client.Job) float64 {
	var output struct {
		DurationSeconds float64 `json:"durationSeconds"`
	}
	if job.Output == nil || json.Unmarshal(*job.Output, &output) != nil {
		return 0
	}
	return output.DurationSeconds
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func downloadCommand() *cobra.Command {
	var t target
	var output string
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:        "download JOB",
		SuggestFor: []string{"dl", "fetch"},
		Short:      "Download a finished video and verify it",
		Long: "Downloads a finished video. The file appears when it is complete and its checksum is right. An interrupted\n" +
			"download resumes where it stopped.",
		Example: "  reelay download job_01937d3e-… --output video.mp4",
		Args:    jobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				output = args[0] + ".mp4"
			}
			if err := checkOutput(output, force); err != nil {
				return err
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			file, err := download(cmd, c, args[0], output)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), file)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
			return err
		},
	}
	t.addFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "file to store the video in (default JOB.mp4)")
	f.BoolVar(&force, "force", false, "replace the file if it exists")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func download(cmd *cobra.Command, c *client.Client, id, output string) (*savedFile, error) {
	job, err := c.Job(cmd.Context(), id)
	if err != nil {
		return nil, apiError(err)
	}
	if !job.Status.Terminal() {
		return nil, fmt.Errorf("%s has no video yet: it is %s at %.0f %%. Follow it with `reelay watch %s`", id, job.Status, job.Progress.Percent, id)
	}
	if err := ending(job); err != nil {
		return nil, err
	}
	return save(cmd.Context(), c, job, output, newDisplay(cmd.ErrOrStderr()))
}

// savedFile is a downloaded and verified video.
type savedFile struct {
	Path            string  `json:"path"`
	SizeBytes       int64   `json:"sizeBytes"`
	Checksum        string  `json:"checksum"`
	DurationSeconds float64 `json:"durationSeconds,omitempty"`
}

func (f *savedFile) String() string {
	text := f.Path + "  "
	if f.DurationSeconds > 0 {
		text += fmt.Sprintf("%.1f s  ", f.DurationSeconds)
	}
	return text + fmt.Sprintf("%d bytes  crc32c %s", f.SizeBytes, f.Checksum)
}

// staleLinks is how many links may expire during one download.
const staleLinks = 5

// save downloads a job's video to path and verifies it. If the link expires, it continues
// with a new one.
func save(ctx context.Context, c *client.Client, job *client.Job, path string, d *display) (*savedFile, error) {
	if job.Result == nil {
		return nil, fmt.Errorf("%s has no video. `reelay get %s` shows what it made", job.Id, job.Id)
	}
	defer d.erase()
	for try := 1; ; try++ {
		err := c.Download(ctx, job.Result, path, d.transfer)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped; `reelay download %s --output %s` resumes it", job.Id, path)
		}
		if client.ErrorCode(err) != client.CodeForbidden || try == staleLinks {
			return nil, apiError(err)
		}
		if job, err = c.Job(ctx, job.Id); err != nil {
			return nil, apiError(err)
		}
	}
	return &savedFile{
		Path: path, SizeBytes: job.Result.SizeBytes, Checksum: job.Result.Checksum,
		DurationSeconds: videoSeconds(job),
	}, nil
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

// checkFolder returns an error if the folder of a file is missing.
func checkFolder(path string) error {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return fmt.Errorf("the folder %s for the file %s does not exist: create it first", folder, filepath.Base(path))
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/client"
)

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
		return nil, fmt.Errorf("%s has no video", job.Id)
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
		DurationSeconds: filmSeconds(job),
	}, nil
}

// filmSeconds returns the length of a job's video, if its runtime reported it.
func filmSeconds(job *client.Job) float64 {
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

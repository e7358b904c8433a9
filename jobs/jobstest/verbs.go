package jobstest

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
)

// FencedVerbs are all calls about an attempt, each with valid input for a running attempt that
// has the given objects.
var FencedVerbs = map[string]func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, o Uploads) error{
	"Heartbeat": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, _ Uploads) error {
		_, err := s.Attempts.Heartbeat(t.Context(), p, f, []lease.GPUSample{{Utilization: new(0.5)}})
		return err
	},
	"ReportProgress": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, _ Uploads) error {
		_, err := s.Attempts.ReportProgress(t.Context(), p, f,
			lease.ProgressReport{Progress: models.Progress{Percent: 77, Phase: models.PhaseRendering}})
		return err
	},
	"RequestUpload": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, _ Uploads) error {
		_, _, err := s.Attempts.RequestUpload(t.Context(), p, f, lease.UploadRequest{
			Type: models.ArtifactLog, ContentType: "text/plain", SizeBytes: 3, Checksum: Checksum([]byte("log")),
		})
		return err
	},
	"CommitCheckpoint": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, o Uploads) error {
		_, err := s.Attempts.CommitCheckpoint(t.Context(), p, f, jobs.Checkpoint{Object: o.Checkpoint, Step: 9, Percent: 90})
		return err
	},
	"CommitArtifact": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, o Uploads) error {
		_, err := s.Attempts.CommitArtifact(t.Context(), p, f, models.ArtifactLog, o.Log)
		return err
	},
	"RejectCheckpoint": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, o Uploads) error {
		_, err := s.Attempts.RejectCheckpoint(t.Context(), p, f, o.Committed, "it does not open")
		return err
	},
	"StoreHandle": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, _ Uploads) error {
		_, err := s.Attempts.StoreHandle(t.Context(), p, f, "prediction 7")
		return err
	},
	"Complete": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, o Uploads) error {
		_, err := s.Attempts.Complete(t.Context(), p, f, lease.Completion{Video: &o.Video})
		return err
	},
	"Fail": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, _ Uploads) error {
		_, err := s.Attempts.Fail(t.Context(), p, f, lease.Failure{Class: models.FailTransient, Message: "no luck"})
		return err
	},
	"Release": func(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, _ Uploads) error {
		_, err := s.Attempts.Release(t.Context(), p, f, models.FailPreempted)
		return err
	},
}

package lease_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestUploadsThatABrowserRuns(t *testing.T) {
	t.Parallel()

	s, _, worker, fence := jobstest.Leased(t)
	for contentType, kind := range map[string]models.ArtifactType{
		"image/svg+xml": models.ArtifactThumbnail, "IMAGE/SVG+XML; charset=utf-8": models.ArtifactPreview, "image/svg": models.ArtifactEvidence,
		"image/x+xml": models.ArtifactSpritesheet, "application/xhtml+xml": models.ArtifactCheckpoint,
		"application/javascript": models.ArtifactCheckpoint,
		"application/pdf":        models.ArtifactCheckpoint,
	} {
		_, _, err := s.Attempts.RequestUpload(t.Context(), worker, fence, lease.UploadRequest{
			Type: kind, ContentType: contentType, SizeBytes: 5, Checksum: jobstest.Checksum([]byte("bytes")),
		})
		jobstest.RequireInvalid(t, err, "contentType")
		require.ErrorContains(t, err, "a browser could run", contentType)
	}
}

package lease

import (
	"regexp"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// TestObjectKey checks that the objects of many jobs are spread over prefixes: a store grows by
// prefix, and all machines that are reclaimed together write checkpoints at once.
func TestObjectKey(t *testing.T) {
	t.Parallel()

	form := regexp.MustCompile(`^checkpoints/([0-9a-f]{2})/job_[0-9a-f-]+/att_[0-9a-f-]+/checkpoint-[0-9a-f-]+$`)
	jobsIn := map[string]int{}
	for range 4000 {
		a := &models.Attempt{ID: models.NewAttemptID(), JobID: models.NewJobID()} // ids of one moment begin alike
		one, other := form.FindStringSubmatch(objectKey(a, models.ArtifactCheckpoint)),
			form.FindStringSubmatch(objectKey(a, models.ArtifactCheckpoint))
		require.NotNil(t, one)
		require.Equal(t, one[1], other[1], "a job has one prefix")
		require.NotEqual(t, one[0], other[0])
		jobsIn[one[1]]++
	}

	require.Len(t, jobsIn, 256)
	for prefix, n := range jobsIn {
		require.Less(t, n, 60, "of about 16 in %s", prefix)
	}
}

package models_test

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func FuzzIDKind(f *testing.F) {
	for _, seed := range []string{string(models.NewJobID()), "JOB_x", "job_", "_", "job_01A1FD5F-E5D2-75B1-9880-583B498AFCE4", "job_\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		kind := models.IDKind(id)

		value, err := models.JobID(id).Value()
		if id == "" {
			return
		}
		require.Equal(t, kind == "job", err == nil, "what is valid can be asked for, and nothing else")
		if err == nil {
			var read models.JobID
			require.NoError(t, read.Scan(value))
			require.Equal(t, id, string(read))
			require.Len(t, id, len("job_")+36)
		}
	})
}

func TestID(t *testing.T) {
	t.Parallel()

	t.Run("HasItsKindAsAPrefix", func(t *testing.T) {
		t.Parallel()

		for kind, id := range map[string]string{
			"acc": string(models.NewAccountID()), "key": string(models.NewKeyID()), "ses": string(models.NewSessionID()),
			"job": string(models.NewJobID()), "att": string(models.NewAttemptID()), "wrk": string(models.NewWorkerID()),
			"pol": string(models.NewPoolID()), "art": string(models.NewArtifactID()),
			"dead": string(models.NewDeadLetterID()), "bulk": string(models.NewBulkID()),
		} {
			require.Equal(t, kind, models.IDKind(id))
			require.Equal(t, kind == "job", models.JobID(id).Valid(), id)
			require.Equal(t, kind == "wrk", models.WorkerID(id).Valid(), id)
		}
		const uuid = "01a1fd5f-e5d2-75b1-9880-583b498afce4"
		for _, bad := range []string{"", "_", "job", "job_", uuid, "jobs_" + uuid, "JOB_" + uuid, "job_" + uuid + "0", "job_{" + uuid[:34] + "}",
			"job_urn:uuid:" + uuid[:27], "job_" + uuid[:35] + "g", "job_\x00"} {
			require.Empty(t, models.IDKind(bad), "%q", bad)
			require.False(t, models.JobID(bad).Valid(), "%q", bad)
		}
	})

	t.Run("IsABareUUIDInTheDatabase", func(t *testing.T) {
		t.Parallel()

		id := models.NewJobID()
		value, err := id.Value()
		require.NoError(t, err)
		require.Equal(t, id.UUID(), value)
		var read models.JobID
		require.NoError(t, read.Scan([]byte(id.UUID())))
		require.Equal(t, id, read)
		require.NoError(t, read.Scan(nil))
		require.Empty(t, read)
		require.Error(t, read.Scan(7))
		value, err = read.Value()
		require.NoError(t, err)
		require.Nil(t, value, "no id is NULL")
		_, err = models.JobID(models.NewWorkerID()).Value()
		require.Error(t, err, "an id of another kind names no row")
	})

	t.Run("SortsByAge", func(t *testing.T) {
		t.Parallel()

		last := models.NewJobID()
		for range 1000 {
			next := models.NewJobID()
			require.Less(t, last, next)
			last = next
		}
	})
}

func TestFencingToken(t *testing.T) {
	t.Parallel()

	require.True(t, models.NewFencingToken().Valid())
	require.NotEqual(t, models.NewFencingToken(), models.NewFencingToken())
	for _, bad := range []models.FencingToken{"", "1", "urn:uuid:01a1fd5f-e5d2-75b1-9880-583b498afce4", "01a1fd5fe5d275b19880583b498afce4"} {
		require.False(t, bad.Valid(), bad)
	}
}

func TestTier(t *testing.T) {
	t.Parallel()

	for i, tier := range models.Tiers {
		for j, other := range models.Tiers {
			require.Equal(t, i < j, tier.Above(other), "%s above %s", tier, other)
		}
	}
}

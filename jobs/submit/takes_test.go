package submit_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestTakes(t *testing.T) {
	t.Parallel()

	submission := func() submit.Submission {
		in := jobstest.Submission()
		draftOf(6)(&in)
		return in
	}
	seedOf := func(j *models.Job) int64 {
		var params struct{ Seed int64 }
		require.NoError(t, json.Unmarshal(j.Params, &params))
		return params.Seed
	}

	t.Run("AreDraftsWithDifferentSeeds", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)

		all, err := s.Submitter.Takes(t.Context(), s.Client, submission(), 8, nil)

		require.NoError(t, err)
		require.Len(t, all, 8)
		found, err := s.Reads.Jobs.Takes(t.Context(), s.Client, all[0].Job.TakesID)
		require.NoError(t, err)
		require.Len(t, found, 8)
		first := seedOf(found[0])
		for i, one := range found {
			require.Equal(t, all[i].Job.ID, one.ID)
			require.Equal(t, first+int64(i), seedOf(one))
			require.Equal(t, 6, one.DraftSteps)
		}
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierPro), access.RoleClient)
		found, err = s.Reads.Jobs.Takes(t.Context(), other, all[0].Job.TakesID)
		require.NoError(t, err)
		require.Empty(t, found)
		_, err = s.Reads.Jobs.Takes(t.Context(), s.Client, "tak_1")
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("WithAKeyAreTheSameAgain", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		in := submission()
		in.IdempotencyKey = new("order 7")
		first, err := s.Submitter.Takes(t.Context(), s.Client, in, 3, nil)
		require.NoError(t, err)

		again, err := s.Submitter.Takes(t.Context(), s.Client, in, 4, nil)

		require.NoError(t, err)
		for i := range first {
			require.Equal(t, first[i].Job.ID, again[i].Job.ID)
			require.True(t, again[i].Deduplicated)
		}
		require.False(t, again[3].Deduplicated)
		require.Equal(t, first[0].Job.TakesID, again[3].Job.TakesID)
	})

	t.Run("HaveTheSeedsThatWereAskedFor", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		in := submission()
		in.Params = []byte(`{"durationSeconds": 1, "seed": 40}`)

		from, err := s.Submitter.Takes(t.Context(), s.Client, in, 2, nil)
		require.NoError(t, err)
		these, err := s.Submitter.Takes(t.Context(), s.Client, in, 8, []int64{9, 3})
		require.NoError(t, err)

		require.Equal(t, []int64{40, 41}, []int64{seedOf(from[0].Job), seedOf(from[1].Job)})
		require.Len(t, these, 2)
		require.Equal(t, []int64{9, 3}, []int64{seedOf(these[0].Job), seedOf(these[1].Job)})
	})

	t.Run("RefuseABadRequest", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		for field, bad := range map[string]func(in *submit.Submission, count *int, seeds *[]int64){
			"draft":       func(in *submit.Submission, _ *int, _ *[]int64) { in.Draft = nil },
			"count":       func(_ *submit.Submission, count *int, _ *[]int64) { *count = 65 },
			"seeds":       func(_ *submit.Submission, _ *int, seeds *[]int64) { *seeds = []int64{4, 4} },
			"params":      func(in *submit.Submission, _ *int, _ *[]int64) { in.Params = []byte(`[]`) },
			"params.seed": func(in *submit.Submission, _ *int, _ *[]int64) { in.Params = []byte(`{"seed": "x"}`) },
			"model":       func(in *submit.Submission, _ *int, _ *[]int64) { in.Model = "none" },
		} {
			in, count, seeds := submission(), 2, []int64(nil)
			bad(&in, &count, &seeds)
			_, err := s.Submitter.Takes(t.Context(), s.Client, in, count, seeds)
			jobstest.RequireInvalid(t, err, field)
		}
		in := submission()
		in.Model = bare(t, s)
		_, err := s.Submitter.Takes(t.Context(), s.Client, in, 2, nil)
		jobstest.RequireInvalid(t, err, "model")
		require.Zero(t, s.Count(t, "jobs"))
		in = submission()
		in.Draft.Steps = 0
		all, err := s.Submitter.Takes(t.Context(), s.Client, in, 2, nil)
		require.NoError(t, err)
		require.Equal(t, "draft.steps", all[1].Refused.Field, fmt.Sprint(all))
	})
}

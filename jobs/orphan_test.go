package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// put stores an object that no row names.
func put(t *testing.T, s *jobstest.Stack, key string) {
	t.Helper()
	data := []byte("an object")
	link, err := s.Objects.LinkUpload(t.Context(), jobs.Upload{
		Key: key, ContentType: "text/plain", SizeBytes: int64(len(data)), Checksum: jobstest.Checksum(data),
	}, time.Minute)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), link.Method, link.Link.At(s.Base), bytes.NewReader(data))
	require.NoError(t, err)
	for name, value := range link.Headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// orphan returns a key in the form of ours.
func orphan(folder string, n int) string {
	return fmt.Sprintf("%s/%02x/%s/%s/log-%s", folder, n, models.NewJobID(), models.NewAttemptID(), models.NewFencingToken())
}

// walk lets the search cover the bucket once.
func walk(t require.TestingT, s *jobstest.Stack) (found int) {
	_, err := s.DB.NewRaw("UPDATE orphan_search SET after_key = '', claimed_until = '-infinity'").Exec(context.Background())
	require.NoError(t, err)
	for pages := 0; ; pages++ {
		n, err := s.Upkeep.FindOrphans(context.Background())
		require.NoError(t, err)
		found += n
		var rests bool
		require.NoError(t, s.DB.NewRaw("SELECT claimed_until > clock_timestamp() + interval '1 hour' FROM orphan_search").Scan(context.Background(), &rests))
		if rests {
			return found
		}
		require.Less(t, pages, 20)
	}
}

func TestFindOrphans(t *testing.T) {
	t.Parallel()

	t.Run("DoomsOurObjectsThatNoRowNames", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		lone := []string{orphan("artifacts", 1), orphan("artifacts", 255), orphan("checkpoints", 7)}
		foreign := []string{"aaa", "artifacts/readme.txt", "artifacts/00/job_1/att_1/log-1", "backups/1", "zzz/1", "x" + orphan("artifacts", 3)}
		for _, key := range append(lone, foreign...) {
			put(t, s, key)
		}
		require.Zero(t, walk(t, s), "they are younger than a day")
		s.Upkeep.Objects = &jobstest.BentStore{Objects: s.Objects, Age: 25 * time.Hour}

		found := walk(t, s)
		n, err := s.Upkeep.DeleteObjects(t.Context())

		require.NoError(t, err)
		require.Equal(t, len(lone), found)
		require.Equal(t, len(lone), n)
		left := jobstest.Stored(t, s)
		require.Subset(t, left, foreign)
		require.Subset(t, left, []string{o.Checkpoint.ObjectKey, o.Log.ObjectKey, o.Video.ObjectKey})
		require.NotSubset(t, left, lone)
		require.Len(t, left, len(foreign)+4)
	})

	t.Run("RunsInOneProcessAtATimeAndContinuesAfterACrash", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		put(t, s, orphan("artifacts", 1))
		s.Upkeep.Objects = &jobstest.BentStore{Objects: s.Objects, Age: 25 * time.Hour}
		s.Exec(t, "UPDATE orphan_search SET claimed_until = clock_timestamp() + interval '1 minute'")
		n, err := s.Upkeep.FindOrphans(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "another process is at it")
		s.Exec(t, "UPDATE orphan_search SET claimed_until = clock_timestamp()")

		found := jobstest.Together(t, 4, s.Upkeep.FindOrphans)

		require.Equal(t, 1, found)
	})

	t.Run("NeverFindsObjectsCommittedMeanwhile", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		s.Upkeep.Objects = &jobstest.BentStore{Objects: s.Objects, Age: 25 * time.Hour}
		var uploads sync.WaitGroup
		done := make(chan struct{})
		uploads.Go(func() {
			defer close(done)
			for step := range 25 {
				jobstest.Checkpoint(t, s, worker, fence, step)
			}
		})

		found := 0
		for uploading := true; uploading; {
			select {
			case <-done:
				uploading = false
			default:
			}
			found += walk(t, s)
			_, err := s.Upkeep.DeleteObjects(t.Context())
			require.NoError(t, err)
		}
		uploads.Wait()

		require.Zero(t, found)
		require.Len(t, jobstest.Artifacts(t, s, job.ID), 25)
		require.Len(t, jobstest.Stored(t, s), 25)
	})

	t.Run("NeverDeletesObjectsThatARowNamesOrMayStillName", func(t *testing.T) {
		t.Parallel()

		steps, removed := 0, int64(0)
		rapid.Check(t, func(rt *rapid.T) {
			l := newLife(t, models.TierEnterprise, models.TierPro)
			s := l.s
			bent := &jobstest.BentStore{Objects: s.Objects, Age: 25 * time.Hour}
			s.Upkeep.Objects = bent
			tidy := func(older string) {
				jobstest.Age(t, s, older)
				for _, pass := range []func(context.Context) (int, error){
					s.Upkeep.ReviewArtifacts, s.Upkeep.ForgetUploads, s.Upkeep.DeleteObjects,
				} {
					_, err := pass(context.Background())
					require.NoError(rt, err)
				}
			}
			sent := map[string]liveLease{}
			send := func(rt *rapid.T) {
				held := pick(rt, l.leases, "lease")
				if o := l.upload(rt, t, held, models.ArtifactCheckpoint); o != nil {
					sent[o.ObjectKey] = held
				}
			}
			rt.Repeat(map[string]func(*rapid.T){
				"": func(rt *rapid.T) {
					steps++
					s.RequireInvariants(rt)
					var named []string
					require.NoError(rt, s.DB.NewRaw("SELECT object_key FROM artifacts").Scan(context.Background(), &named))
					require.Subset(rt, jobstest.Stored(rt, s), named)
					for key, held := range sent {
						if attempt, err := models.GetAttempt(context.Background(), s.DB, held.fence.AttemptID); err != nil || !attempt.EndedAt.IsZero() {
							delete(sent, key)
							continue
						}
						require.Contains(rt, jobstest.Stored(rt, s), key, "its attempt lives: it may still commit")
					}
				},
				"submit":     l.submit,
				"lease":      l.lease,
				"lease too":  l.lease,
				"send":       send,
				"checkpoint": l.checkpoint(t),
				"complete":   l.complete(t),
				"fail":       l.fail,
				"release":    l.release,
				"reap":       l.reap(t),
				"due":        l.due(t),
				"delete job": func(rt *rapid.T) {
					_, err := s.Deleter.Delete(context.Background(), s.Admin, pick(rt, l.jobs, "job"))
					allowed(rt, err, apierror.CodeConflict)
				},
				"orphans": func(rt *rapid.T) { require.Zero(rt, walk(rt, s), "rows name all there is") },
				"tidy": func(rt *rapid.T) {
					tidy(rapid.SampledFrom([]string{"1 second", "20 minutes", "25 hours"}).Draw(rt, "older by"))
				},
			})
			tidy("31 days")
			s.RequireInvariants(rt)
			removed += bent.Deletes.Load()
		})
		if steps >= enough {
			require.Positive(t, removed, "nothing was ever deleted: the test tried nothing")
		}
	})
}

func TestDeleteObjects(t *testing.T) {
	t.Parallel()

	doom := func(t *testing.T, s *jobstest.Stack, n int) (keys []string) {
		t.Helper()
		for i := range n {
			keys = append(keys, orphan("artifacts", i))
			put(t, s, keys[i])
			s.Exec(t, "INSERT INTO object_deletions (object_key) VALUES (?)", keys[i])
		}
		return keys
	}

	t.Run("RetriesLaterWhenTheStoreRefuses", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		keys := doom(t, s, 3)
		away := errors.New("the store is away")
		bent := &jobstest.BentStore{Objects: s.Objects, OnDelete: func(key string) error {
			if key == keys[1] {
				return away
			}
			return nil
		}}
		s.Upkeep.Objects = bent

		n, err := s.Upkeep.DeleteObjects(t.Context())
		require.ErrorIs(t, err, away)
		require.Equal(t, 2, n)
		require.Equal(t, keys[1:2], jobstest.Stored(t, s))
		n, err = s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "it is not due")
		for _, wait := range []string{"30 seconds", "60 seconds", "120 seconds"} {
			var least, most bool
			require.NoError(t, s.DB.NewRaw(`SELECT next_at > clock_timestamp() + ?0::interval - interval '20 seconds', next_at <= clock_timestamp() + ?0::interval
				FROM object_deletions`, wait).Scan(t.Context(), &least, &most))
			require.True(t, least && most, wait)
			s.Exec(t, "UPDATE object_deletions SET next_at = clock_timestamp()")
			_, err := s.Upkeep.DeleteObjects(t.Context())
			require.ErrorIs(t, err, away)
		}
		bent.OnDelete = nil
		s.Exec(t, "UPDATE object_deletions SET next_at = clock_timestamp(), tries = 1000")

		n, err = s.Upkeep.DeleteObjects(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Empty(t, jobstest.Stored(t, s))
		require.Zero(t, s.Count(t, "object_deletions"))
	})

	t.Run("DeletesEachObjectOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		doom(t, s, 40)
		s.Exec(t, "INSERT INTO object_deletions (object_key) VALUES ('artifacts/long gone')")
		bent := &jobstest.BentStore{Objects: s.Objects}
		s.Upkeep.Objects = bent

		n := jobstest.Together(t, 3, s.Upkeep.DeleteObjects)

		require.Equal(t, 41, n)
		require.EqualValues(t, 41, bent.Deletes.Load())
		require.Empty(t, jobstest.Stored(t, s))
	})
}

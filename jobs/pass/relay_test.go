package pass_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// queue records published messages.
type queue struct {
	mu     sync.Mutex
	got    []models.JobID
	refuse error
}

func (q *queue) publish(_ context.Context, m *models.OutboxMessage) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse != nil {
		return q.refuse
	}
	var ready change.JobReady
	if err := json.Unmarshal(m.Payload, &ready); err != nil {
		return err
	}
	q.got = append(append(q.got, ready.JobID), ready.Others...)
	return nil
}

func TestRelay(t *testing.T) {
	t.Parallel()

	t.Run("PublishesEachMessageOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var expected []models.JobID
		for range 40 {
			expected = append(expected, s.Submit(t).ID)
		}
		q := &queue{}
		relay := &pass.Relay{DB: s.DB, Publish: q.publish}

		var passes sync.WaitGroup
		for range 6 {
			passes.Go(func() {
				if _, err := relay.Pass(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		passes.Wait()

		require.ElementsMatch(t, expected, q.got)
		require.Zero(t, s.Count(t, "outbox"))
	})

	t.Run("JoinsMessagesOfOneLane", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var enterprise []models.JobID
		for range 3 {
			enterprise = append(enterprise, s.Submit(t).ID)
		}
		batch := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
		told := map[models.Tier][][]models.JobID{}
		relay := &pass.Relay{DB: s.DB, Publish: func(_ context.Context, m *models.OutboxMessage) error {
			var ready change.JobReady
			err := json.Unmarshal(m.Payload, &ready)
			told[ready.Lane] = append(told[ready.Lane], append([]models.JobID{ready.JobID}, ready.Others...))
			return err
		}}

		carried, err := relay.Pass(t.Context())

		require.NoError(t, err)
		require.Equal(t, 4, carried)
		require.Len(t, told[models.TierEnterprise], 1)
		require.ElementsMatch(t, enterprise, told[models.TierEnterprise][0])
		require.Equal(t, [][]models.JobID{{batch.ID}}, told[models.TierBatch])
		require.Zero(t, s.Count(t, "outbox"))
	})

	t.Run("RetriesMessagesThatTheQueueRefused", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		q := &queue{refuse: errors.New("redis is away")}
		relay := &pass.Relay{DB: s.DB, Publish: q.publish}

		carried, err := relay.Pass(t.Context())

		require.ErrorIs(t, err, q.refuse)
		require.Zero(t, carried)
		q.refuse = nil
		carried, err = relay.Pass(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, carried, "it is due again at once")
		require.Equal(t, []models.JobID{job.ID}, q.got)
	})

	t.Run("ContinuesAfterAMessageWithoutAHandler", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, `INSERT INTO outbox (kind, payload) VALUES ('job.dreamt', '{}')`)
		job := s.Submit(t)
		q := &queue{}
		tried := 0
		relay := &pass.Relay{DB: s.DB, Publish: func(ctx context.Context, m *models.OutboxMessage) error {
			if m.Kind != models.OutboxJobReady {
				tried++
				return pass.ErrUnpublishable
			}
			return q.publish(ctx, m)
		}}

		for range 3 {
			_, err := relay.Pass(t.Context())
			require.NoError(t, err)
		}

		require.Equal(t, []models.JobID{job.ID}, q.got)
		require.Equal(t, 1, tried, "it is put off")
		require.Equal(t, 1, s.Count(t, "outbox"), "it is kept for who handles it")
		s.Exec(t, "UPDATE outbox SET created_at = clock_timestamp() - interval '1 hour', claimed_until = NULL")
		_, err := relay.Pass(t.Context())
		require.NoError(t, err)
		var wait float64
		require.NoError(t, s.DB.NewRaw("SELECT extract(epoch FROM claimed_until - clock_timestamp()) FROM outbox").Scan(t.Context(), &wait))
		require.InDelta(t, 3600, wait, 60, "the older it is, the later it comes again")
	})

	t.Run("PublishesOnlyCommittedMessages", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 0")

		_, _, err := s.Submitter.Submit(t.Context(), s.Client, jobstest.Submission())

		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
		require.Zero(t, s.Count(t, "outbox"))
	})
}

func TestReady(t *testing.T) {
	t.Parallel()

	t.Run("AddsAQueuedJobToTheIndex", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		s.Index().Lose()
		require.NoError(t, s.Notifier.Index.Rebuild(t.Context(), nil))

		require.NoError(t, s.Readier.Ready(t.Context(), job.ID))

		first, err := s.Notifier.Index.First(t.Context(), enterprise, nil, 1)
		require.NoError(t, err)
		require.Equal(t, job.ID, first[0].ID)
		require.Equal(t, job.QueueOrder, first[0].Order)
		jobstest.LeaseNext(t, s, s.Worker(t, "one"))
		jobstest.RequireCode(t, s.Readier.Ready(t.Context(), job.ID), apierror.CodeNotFound)
	})

	t.Run("RebuildsALostIndex", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		batch := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
		s.Index().Lose()
		_, err := s.Notifier.Index.First(t.Context(), enterprise, nil, 1)
		require.ErrorIs(t, err, jobs.ErrIndexLost)

		require.NoError(t, s.Readier.Sweep(t.Context()))

		for _, queued := range []*models.Job{job, batch} {
			heads, err := s.Notifier.Index.First(t.Context(), []models.Queue{queued.Queue()}, nil, 10)
			require.NoError(t, err)
			require.Len(t, heads, 1)
			require.Equal(t, queued.ID, heads[0].ID)
		}
	})
}

// enterprise is the queue of the client's jobs.
var enterprise = []models.Queue{{Line: models.Line{Lane: models.TierEnterprise}, Model: "testcard"}}

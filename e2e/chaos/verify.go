package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/gpu/runtimes/drill"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
)

// verdict is the result of the verification at the end.
type verdict struct {
	Accepted, Completed, Failed, Cancelled int
	FailedBy                               map[string]int

	Lost        []string // acknowledged jobs that are not there, or not over
	Duplicated  []string // requests with two jobs, jobs with two ends
	WrongVideos []string
	Breaches    []string // invariants that do not hold
	Videos      int      // compared byte by byte
	Objects     int      // hashed again

	Graph *graphReport `json:",omitempty"`
}

// finished is one job with its final state.
type finished struct {
	ID          string
	N           int
	Status      string
	Class       string
	Run         int
	Key         string
	VideoKey    string
	CompletedAt time.Time
	CancelledAt time.Time
}

// verify compares the ledger with the database and the videos with their expected content,
// and checks every invariant.
func (s *soak) verify(ctx context.Context) (*verdict, error) {
	var rows []finished
	err := s.stack.db.NewRaw(`
		SELECT j.id, (j.metadata ->> 'n')::int AS n, j.status, coalesce(j.failure_class, '') AS class, j.run,
			coalesce(j.idempotency_key, '') AS key, coalesce(r.object_key, '') AS video_key,
			coalesce(j.completed_at, 'epoch') AS completed_at, coalesce(j.cancel_requested_at, 'epoch') AS cancelled_at
		FROM jobs j LEFT JOIN artifacts r ON r.id = j.result_id WHERE j.workflow_id IS NULL`).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	v := &verdict{FailedBy: map[string]int{}}
	byRequest := map[int][]finished{}
	for _, row := range rows {
		byRequest[row.N] = append(byRequest[row.N], row)
		switch row.Status {
		case "COMPLETED":
			v.Completed++
		case "FAILED":
			v.Failed++
			v.FailedBy[row.Class]++
		case "CANCELLED":
			v.Cancelled++
		}
	}
	for _, r := range s.ledger.all() {
		s.compare(v, r, byRequest[r.N])
		delete(byRequest, r.N)
	}
	for n, unknown := range byRequest {
		v.Breaches = append(v.Breaches, fmt.Sprintf("job %s is of request %d, which was never made", unknown[0].ID, n))
	}
	if err := s.verifyGraph(ctx, v); err != nil {
		return v, err
	}
	if err := s.hashObjects(ctx, v); err != nil {
		return v, err
	}
	if err := s.askGaps(ctx, v); err != nil {
		return v, err
	}
	return v, s.askInvariants(ctx, v)
}

// noted is the outage of PostgreSQL or of all apis after which the servers must have
// recorded a gap: its 5 s, and one round of signs of life before and after.
const noted = 9 * time.Second

// askGaps looks for outages that the servers did not record, and for leases that were reaped
// before their workers could renew them: within one lease after a gap.
func (s *soak) askGaps(ctx context.Context, v *verdict) error {
	ends, gaps := s.watch.gapEnds(), s.watch.lastingGaps()
	for _, group := range [][]*process{{s.stack.postgres}, s.stack.apis, s.stack.controls} {
		for _, o := range common(group) {
			if o.until.Sub(o.from) > noted && !overlaps(gaps, o.from, o.until) {
				v.Breaches = append(v.Breaches, fmt.Sprintf("%s was away from %s to %s, but no gap was recorded", group[0].name, o.from.UTC(),
					o.until.UTC()))
			}
		}
	}
	s.met.add("gaps that the servers saw", len(ends))
	for _, end := range ends {
		var taken []string
		err := s.stack.db.NewRaw(`
			SELECT id FROM job_attempts
			WHERE status = 'LOST' AND failure_reason = 'its lease ran out' AND leased_at < ?0
				AND ended_at >= ?0 AND ended_at < ?0::timestamptz + make_interval(secs => ?1)
				AND last_heartbeat_at > ended_at - interval '10 minutes'`, end, lease.LeaseTTL.Seconds()).Scan(ctx, &taken)
		if err != nil {
			return fmt.Errorf("ask for leases taken after a gap: %w", err)
		}
		for _, id := range taken {
			v.Breaches = append(v.Breaches, fmt.Sprintf("attempt %s was reaped within a lease of the gap that ended at %s", id,
				end.Format(time.RFC3339)))
		}
	}
	return nil
}

// compare compares one request with its jobs.
func (s *soak) compare(v *verdict, r *request, found []finished) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) > 0 {
		v.Accepted++
	}
	if len(r.ids) > 1 || len(found) > 1 {
		v.Duplicated = append(v.Duplicated, fmt.Sprintf("request %d: responses name %v, but there are %d jobs", r.N, sortedKeys(r.ids),
			len(found)))
	}
	for id := range r.ids {
		bare := strings.TrimPrefix(id, "job_")
		if !slices.ContainsFunc(found, func(j finished) bool { return j.ID == bare }) {
			v.Lost = append(v.Lost, fmt.Sprintf("%s (request %d) was acknowledged and is not there", id, r.N))
		}
	}
	for _, j := range found {
		if j.CompletedAt.Year() < 2000 {
			v.Lost = append(v.Lost, fmt.Sprintf("%s is still %s", j.ID, j.Status))
		}
		if !r.cancelled.IsZero() && !r.reopened && j.Status != "CANCELLED" {
			v.Breaches = append(v.Breaches, fmt.Sprintf("the cancel of %s was acknowledged, but the job is %s", j.ID, j.Status))
		}
		if !r.asked.IsZero() && j.CompletedAt.Sub(r.asked).Abs() < 500*time.Millisecond {
			s.met.add(metCancelRace, 1)
		}
		if r.Misdeed == "crash" && j.Status == "FAILED" {
			s.met.add(metPoison, 1)
		}
		if r.Misdeed != "" && j.Status == "COMPLETED" {
			v.Breaches = append(v.Breaches, fmt.Sprintf("%s completed, though its runtime had to %s", j.ID, r.Misdeed))
		}
		if j.Status == "COMPLETED" {
			s.compareVideo(v, r, j)
		}
	}
}

// compareVideo reads the video and bypasses all faults. It must equal, byte by byte, that of
// an undisturbed job.
func (s *soak) compareVideo(v *verdict, r *request, j finished) {
	video, err := s.stack.store.read(j.VideoKey)
	v.Videos++
	switch {
	case err != nil:
		v.WrongVideos = append(v.WrongVideos, fmt.Sprintf("%s: %v", j.ID, err))
	case !bytes.Equal(video, drill.Video(r.Prompt, r.Seed, r.Steps)):
		v.WrongVideos = append(v.WrongVideos, fmt.Sprintf("%s: the video is another job's, or not a video", j.ID))
	}
}

// hashObjects reads every object to which a job still points and compares it with its row.
func (s *soak) hashObjects(ctx context.Context, v *verdict) error {
	var rows []struct {
		Key, Checksum, Type string
		Size                int64
	}
	err := s.stack.db.NewRaw(`
		SELECT r.object_key AS key, r.checksum, r.type, r.size_bytes AS size FROM artifacts r
		JOIN jobs j ON r.id IN (j.result_id, j.latest_checkpoint_id)`).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("read the artifacts: %w", err)
	}
	for _, row := range rows {
		if s.stack.store.damaged(row.Key) { // by the soak, and not read since
			continue
		}
		object, err := s.stack.store.read(row.Key)
		v.Objects++
		if err != nil {
			v.Breaches = append(v.Breaches, fmt.Sprintf("a row points to %s: %v", row.Key, err))
			continue
		}
		sum, size, err := client.Checksum(bytes.NewReader(object))
		if err != nil {
			return err
		}
		if sum != row.Checksum || size != row.Size {
			v.Breaches = append(v.Breaches, fmt.Sprintf("the object %s differs from its row", row.Key))
		}
	}
	return nil
}

// askInvariants checks the rows like `reelay doctor --full`, and that every job has ended.
func (s *soak) askInvariants(ctx context.Context, v *verdict) error {
	var open []string
	if err := s.stack.db.NewRaw("SELECT id::text FROM jobs WHERE completed_at IS NULL").Scan(ctx, &open); err != nil {
		return fmt.Errorf("check that every job has ended: %w", err)
	}
	v.breach("every job has ended", open, len(open))
	for _, which := range models.Invariants {
		broken, err := models.FindViolations(ctx, s.stack.db, which, doctor.Examination(), shownBreaches)
		if err != nil {
			return fmt.Errorf("ask for %s: %w", which, err)
		}
		v.breach(string(which), broken.IDs, broken.Count)
	}
	return nil
}

// shownBreaches is how many breaches of one invariant are shown.
const shownBreaches = 5

func (v *verdict) breach(what string, rows []string, count int) {
	for _, row := range rows[:min(len(rows), shownBreaches)] {
		v.Breaches = append(v.Breaches, fmt.Sprintf("broken: %s: %s", what, row))
	}
	if count > shownBreaches {
		v.Breaches = append(v.Breaches, fmt.Sprintf("… and %d more", count-shownBreaches))
	}
}

// countFromHistory fills the counters that come from the history in the database.
func (s *soak) countFromHistory(ctx context.Context) error {
	for name, query := range map[string]string{
		metLost:     `SELECT count(*) FROM job_attempts WHERE status = 'LOST'`,
		metReleased: `SELECT count(*) FROM job_attempts WHERE status = 'RELEASED'`,
		metResumed:  `SELECT count(*) FROM job_attempts WHERE resumed_from_step IS NOT NULL`,
		metCorrupt:  `SELECT count(*) FROM artifacts WHERE rejected_at IS NOT NULL`,
		metHung:     `SELECT count(*) FROM job_attempts a JOIN jobs j ON j.id = a.job_id WHERE j.params ->> 'misbehave' = 'hang' AND a.status = 'FAILED' AND a.failure_class = 'TIMEOUT'`,
	} {
		var n int
		if err := s.stack.db.NewRaw(query).Scan(ctx, &n); err != nil {
			return fmt.Errorf("count %s: %w", name, err)
		}
		s.met.add(name, n)
	}
	s.met.add(metPartial, int(s.stack.store.partial.Load()))
	s.met.add(metStoreErrors, int(s.stack.store.refused.Load()+s.stack.store.cut.Load()))
	return nil
}

package bench

import (
	"context"
	"time"
)

// Stores is the name of the measurement, which needs a second stack with an S3 store.
const Stores = "stores"

// onS3 is the name of that stack in the report.
const onS3 = "Reelay on S3"

// stores measures the checkpoints of the daily load on two object stores.
func stores() Measurement {
	return Measurement{
		Name: Stores, Title: "the daily load's checkpoints, on S3 beside GCS", Unit: "requests",
		Targets: []Target{
			{Name: "daily load: checkpoint p99 on S3 / on GCS", Figure: "checkpoint p99", Of: onS3, Against: reelay, Bound: 1.3, AtMost: true},
		},
		Note: "Two Reelays by turns, each with PostgreSQL, Redis and an object store of its own on this machine: the store of `reelay up`, which speaks the protocol of GCS, and versitygw, which speaks that of S3 and checks signatures. Both keep their objects in the same file system. A tenth of the daily load runs on one of them at a time (--n changes the number of running jobs); --minutes is the time of all rounds. A checkpoint is requestUpload, PUT and commitCheckpoint.",
		Prepare: func(_ context.Context, s *Site) ([]Contestant, error) {
			ours := []Contestant{{Name: reelay, Role: Ours, Round: s.turn(s.Effort)}}
			if s.S3 != nil {
				ours = append(ours, Contestant{Name: onS3, Role: Ours, Round: s.S3.turn(s.Effort), Differs: "its objects are in S3"})
			}
			return ours, nil
		},
	}
}

// turn returns a round of a part of the daily load, whose workers leave at its end: they could not
// keep their jobs during the rounds of the other.
func (s *Site) turn(effort Effort) func(context.Context) (Figures, error) {
	const sites = 2
	span := time.Duration(effort.Minutes * float64(time.Minute) / float64(sites*effort.Rounds))
	return func(ctx context.Context) (_ Figures, err error) {
		s.Effort = effort
		defer func() {
			if failed := s.clear(context.WithoutCancel(ctx)); err == nil {
				err = failed
			}
		}()
		d, err := s.newDay(ctx, s.n(dailyJobs/10, 18))
		if err != nil {
			return nil, err
		}
		return d.round(ctx, span)
	}
}

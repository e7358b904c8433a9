package lease_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

func TestWorkerInput(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheInvalidField", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		before := s.Dump(t)
		now, err := postgres.Now(t.Context(), s.DB)
		require.NoError(t, err)

		samples := func(all ...lease.GPUSample) error {
			_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, all)
			return err
		}
		checkpoint := func(seconds float64) error {
			_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{
				Object: o.Checkpoint, Step: 1, Percent: 1, DurationSeconds: &seconds,
			})
			return err
		}
		drain := func(deadline time.Time) error {
			_, err := s.Registrar.DrainSelf(t.Context(), worker, worker.WorkerID, "going", deadline)
			return err
		}
		warm := func(names []string) error {
			_, _, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Warm: names})
			return err
		}
		progress := func(p models.Progress) error {
			p.Phase = models.PhaseRendering
			_, err := s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{Progress: p})
			return err
		}
		register := func(spoil func(*fleet.Registration)) error {
			in := fleet.Registration{
				Provider: "static", ProviderInstanceID: "two", GPUCount: 1, Region: "local", GPUType: "any",
				CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
			}
			spoil(&in)
			_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)
			return err
		}
		for name, c := range map[string]struct {
			field string
			err   error
		}{
			"a GPU below 0":             {"gpus", samples(lease.GPUSample{Index: -1})},
			"a GPU beyond all":          {"gpus", samples(lease.GPUSample{Index: 64})},
			"a GPU twice":               {"gpus", samples(lease.GPUSample{Index: 1}, lease.GPUSample{}, lease.GPUSample{Index: 1})},
			"65 GPUs":                   {"gpus", samples(make([]lease.GPUSample, 65)...)},
			"utilization NaN":           {"gpus", samples(lease.GPUSample{Utilization: new(math.NaN())})},
			"utilization 2":             {"gpus", samples(lease.GPUSample{Utilization: new(2.0)})},
			"memory below 0":            {"gpus", samples(lease.GPUSample{MemoryUsedBytes: new(int64(-1))})},
			"too much memory":           {"gpus", samples(lease.GPUSample{MemoryUsedBytes: new(int64(math.MaxInt64))})},
			"1,000 GPUs":                {"gpus", samples(make([]lease.GPUSample, 1000)...)},
			"total memory below 0":      {"gpus", samples(lease.GPUSample{MemoryTotalBytes: new(int64(-1))})},
			"power NaN":                 {"gpus", samples(lease.GPUSample{PowerW: new(math.NaN())})},
			"power below 0":             {"gpus", samples(lease.GPUSample{PowerW: new(-1.0)})},
			"infinite power":            {"gpus", samples(lease.GPUSample{PowerW: new(math.Inf(1))})},
			"ECC errors below 0":        {"gpus", samples(lease.GPUSample{ECCUncorrected: new(int64(-1))})},
			"too many ECC errors":       {"gpus", samples(lease.GPUSample{ECCUncorrected: new(int64(math.MaxInt64))})},
			"temperature NaN":           {"gpus", samples(lease.GPUSample{TemperatureC: new(math.NaN())})},
			"an impossible temperature": {"gpus", samples(lease.GPUSample{TemperatureC: new(5500.0)})},
			"xid below 0":               {"gpus", samples(lease.GPUSample{Xid: new(-1)})},
			"an xid out of range":       {"gpus", samples(lease.GPUSample{Xid: new(math.MaxInt32)})},
			"a duration below 0":        {"durationSeconds", checkpoint(-1)},
			"a duration of NaN":         {"durationSeconds", checkpoint(math.NaN())},
			"an infinite duration":      {"durationSeconds", checkpoint(math.Inf(1))},
			"a duration of 1e308":       {"durationSeconds", checkpoint(1e308)},
			"a deadline long ago":       {"deadline", drain(now.Add(-6 * time.Minute))},
			"a deadline in years":       {"deadline", drain(now.AddDate(3, 0, 0))},
			"a deadline in year 9999":   {"deadline", drain(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))},
			"an unknown warm model":     {"warmModels", warm([]string{"testcard", "un\x00heard"})},
			"10^6 warm models":          {"warmModels", warm(slices.Repeat([]string{"testcard"}, 1_000_000))},
			"progress NaN":              {"percent", progress(models.Progress{Percent: math.NaN()})},
			"progress below 0":          {"percent", progress(models.Progress{Percent: -1})},
			"progress 101":              {"percent", progress(models.Progress{Percent: 101})},
			"a step beyond 32 bits":     {"step", progress(models.Progress{Step: new(math.MaxInt32 + 1)})},
			"a model with NUL":          {"models", register(func(in *fleet.Registration) { in.Models = []string{"un\x00heard"} })},
			"101 models": {"models", register(func(in *fleet.Registration) {
				in.Models = slices.Repeat([]string{"testcard"},
					101)
			})},
			"an unknown warm one of many": {"warmModels", register(func(in *fleet.Registration) { in.WarmModels = []string{"un\x00heard"} })},
		} {
			require.Error(t, c.err, name)
			jobstest.RequireInvalid(t, c.err, c.field)
			require.Less(t, len(c.err.Error()), 300, name)
		}
		require.Equal(t, before, s.Dump(t), "what was refused changed nothing")
	})

	t.Run("IsAcceptedAtItsLimits", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		now, err := postgres.Now(t.Context(), s.DB)
		require.NoError(t, err)

		_, err = s.Attempts.Heartbeat(t.Context(), worker, fence, []lease.GPUSample{
			{Index: 1, Utilization: new(1.0), TemperatureC: new(93.5), Xid: new(79)}, {Utilization: new(0.25), MemoryUsedBytes: new(int64(80 << 30)),
				PowerW: new(700.5), ECCUncorrected: new(int64(3))},
		})
		require.NoError(t, err)
		_, err = s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: o.Checkpoint, Step: 1, Percent: 1,
			DurationSeconds: new(0.0)})
		require.NoError(t, err)
		drained, err := s.Registrar.DrainSelf(t.Context(), worker, worker.WorkerID, "going", now.Add(-time.Minute))
		require.NoError(t, err, "a clock may be wrong by a minute")

		require.Equal(t, models.WorkerDraining, drained.Status)
		require.Equal(t, []float64{0.25, 1}, drained.GPUUtilization)
		gpus, err := s.Reads.Fleet.GPUs(t.Context(), []models.WorkerID{worker.WorkerID})
		require.NoError(t, err)
		require.Len(t, gpus, 2)
		require.Equal(t, models.GPUSample{Utilization: new(0.25), MemoryUsedBytes: new(int64(80 << 30)), PowerW: new(700.5),
			ECCUncorrected: new(int64(3))}, gpus[0].GPUSample)
		require.Equal(t, new(79), gpus[1].Xid)
		require.True(t, gpus[0].Faulty() && gpus[1].Faulty())
		sums, err := s.Reads.Fleet.PoolGPUs(t.Context())
		require.NoError(t, err)
		require.Equal(t, []models.PoolGPUs{{Count: 2, Faulty: 2, Utilization: new(0.625), TemperatureC: new(93.5), PowerW: new(700.5)}}, sums)

		_, err = s.Attempts.Heartbeat(t.Context(), worker, fence,
			[]lease.GPUSample{{MemoryUsedBytes: new(int64(1 << 30)), MemoryTotalBytes: new(int64(4 << 30))}})
		require.NoError(t, err, "the utilization of a part of a GPU is not known")
		_, err = s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		gpus, err = s.Reads.Fleet.GPUs(t.Context(), []models.WorkerID{worker.WorkerID})
		require.NoError(t, err)
		require.Len(t, gpus, 1, "only the newest samples are kept, and a heartbeat without any keeps them")
		sums, err = s.Reads.Fleet.PoolGPUs(t.Context())
		require.NoError(t, err)
		require.Equal(t, []models.PoolGPUs{{Count: 1, MemoryUsed: new(0.25)}}, sums)
	})
}

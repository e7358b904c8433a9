package query_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

var viewer = jobs.Principal{Role: access.RoleViewer}

// ledger has a machine in each state, each asked for an hour before the one above it.
func ledger(t *testing.T, s *jobstest.Stack) *capacity.Pool {
	t.Helper()
	pool := jobstest.AddPool(t, s, 0, 4)
	s.Exec(t, "UPDATE pools SET price_per_hour_usd = 3")
	for i, times := range []string{
		"NULL, NULL, NULL, NULL, NULL, NULL, NULL",
		"asked, NULL, NULL, NULL, NULL, NULL, NULL",
		"asked, asked, NULL, NULL, NULL, NULL, NULL",
		"asked, asked, asked, NULL, asked, NULL, NULL",
		"asked, asked, NULL, NULL, asked, NULL, NULL",
		"asked, asked, asked, asked, asked, now(), asked + interval '30 minutes'",
		"NULL, NULL, NULL, NULL, NULL, now(), asked",
	} {
		s.Exec(t, `INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, registered_at, told_at, deleted_at, missing_at, gone_at, billed_until)
			SELECT ?, 'fake', ?, 2, asked, `+times+` FROM (SELECT now() - make_interval(hours => ?) AS asked) of`, pool.ID, fmt.Sprint("m", i), i+1)
	}
	return pool
}

func TestMachines(t *testing.T) {
	t.Parallel()

	newest := paging.Request{First: 50}
	ids := func(found []*capacity.BilledMachine) []string {
		return lo.Map(found, func(m *capacity.BilledMachine, _ int) string { return m.InstanceID })
	}

	t.Run("AreListedWithStateAndCost_NewestFirst", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := ledger(t, s)
		for range 2 {
			s.Exec(t, `INSERT INTO workers (id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, created_at, ended_at)
				VALUES (gen_random_uuid(), 'fake', 'm5', 'local', 'any', 'SPOT', '{}', 'TERMINATED', now(), now()),
					(gen_random_uuid(), 'other', 'm5', 'local', 'any', 'SPOT', '{}', 'TERMINATED', now(), now())`)
		}

		page, err := s.Reads.Fleet.Machines(t.Context(), viewer, capacity.MachineFilter{PoolID: pool.ID}, newest)

		require.NoError(t, err)
		require.Equal(t, []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6"}, ids(page.Items))
		states := lo.Map(page.Items, func(m *capacity.BilledMachine, _ int) capacity.MachineState { return m.State })
		require.Equal(t, append(capacity.MachineStates, capacity.MachineGone), states)
		for i, hours := range []float64{0, 2, 3, 4, 5, 0.5, 0} { // of two workers each
			require.InDelta(t, 2*3600*hours, page.Items[i].PaidSeconds, 120, i)
			require.InDelta(t, 2*3*hours, page.Items[i].CostUSD, 0.1, i)
		}
		require.Len(t, page.Items[5].WorkerIDs, 2)
		require.True(t, page.Items[5].WorkerIDs[0].Valid())
		require.Empty(t, page.Items[4].WorkerIDs)
		require.False(t, page.More)
	})

	t.Run("AreReadPageByPage_AlsoThoseOfOneTime", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		ledger(t, s)
		s.Exec(t, "UPDATE machines SET asked_at = date_trunc('day', asked_at) + interval '1.000001 seconds' WHERE instance_id <> 'm0'")
		var found []string
		of := paging.Request{First: 2}

		for {
			page, err := s.Reads.Fleet.Machines(t.Context(), viewer, capacity.MachineFilter{PoolID: "fakes"}, of)
			require.NoError(t, err)
			found = append(found, ids(page.Items)...)
			if of.After = page.End; !page.More {
				break
			}
		}

		require.Len(t, found, 7)
		require.Len(t, lo.Uniq(found), 7)
	})

	t.Run("AreNarrowed", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := ledger(t, s)
		s.Exec(t, "UPDATE pools SET deleted_at = now()")
		for name, f := range map[string]capacity.MachineFilter{
			"m3":       {States: []capacity.MachineState{capacity.MachineEnding}},
			"m2 m5 m6": {States: []capacity.MachineState{capacity.MachineGone, capacity.MachineRunning}},
			"m1":       {InstanceID: "m1"},
			"":         {InstanceID: "m9"},
			"m0 m1 m4": {PoolID: pool.ID, States: []capacity.MachineState{capacity.MachineAsked, capacity.MachineMissing, capacity.MachineBooting}},
		} {
			page, err := s.Reads.Fleet.Machines(t.Context(), viewer, f, newest)
			require.NoError(t, err, name)
			require.Equal(t, name, strings.Join(ids(page.Items), " "))
		}
	})

	t.Run("RefusesBadInput", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		ledger(t, s)
		first, err := s.Reads.Fleet.Machines(t.Context(), viewer, capacity.MachineFilter{}, paging.Request{First: 1})
		require.NoError(t, err)
		mark := func(text string) string { return jobstest.CursorOf(paging.MachineKind, text, capacity.MachineFilter{}) }
		for name, call := range map[string]struct {
			p    jobs.Principal
			f    capacity.MachineFilter
			of   paging.Request
			code apierror.Code
		}{
			"a viewer":                   {viewer, capacity.MachineFilter{}, newest, ""},
			"a mark":                     {viewer, capacity.MachineFilter{}, paging.Request{First: 1, After: mark("1-1")}, ""},
			"a client":                   {s.Client, capacity.MachineFilter{}, newest, apierror.CodeForbidden},
			"an unknown pool":            {viewer, capacity.MachineFilter{PoolID: models.NewPoolID()}, newest, apierror.CodeNotFound},
			"an unknown name":            {viewer, capacity.MachineFilter{PoolID: "nonesuch"}, newest, apierror.CodeNotFound},
			"a name that cannot be":      {viewer, capacity.MachineFilter{PoolID: "\x00"}, newest, apierror.CodeNotFound},
			"an unknown state":           {viewer, capacity.MachineFilter{States: []capacity.MachineState{"LOST"}}, newest, apierror.CodeInvalidInput},
			"an instance that cannot be": {viewer, capacity.MachineFilter{InstanceID: "\xff"}, newest, apierror.CodeInvalidInput},
			"too many":                   {viewer, capacity.MachineFilter{}, paging.Request{First: 201}, apierror.CodeInvalidInput},
			"none":                       {viewer, capacity.MachineFilter{}, paging.Request{First: 0}, apierror.CodeInvalidInput},
			"a cursor of another list":   {viewer, capacity.MachineFilter{InstanceID: "m1"}, paging.Request{First: 1, After: first.End}, apierror.CodeInvalidInput},
			"a cursor of workers": {viewer, capacity.MachineFilter{}, paging.Request{First: 1,
				After: jobstest.CursorOf("wrk", string(models.NewWorkerID()), models.WorkerFilter{})}, apierror.CodeInvalidInput},
			"no number":        {viewer, capacity.MachineFilter{}, paging.Request{First: 1, After: mark("x-1")}, apierror.CodeInvalidInput},
			"half a mark":      {viewer, capacity.MachineFilter{}, paging.Request{First: 1, After: mark("1")}, apierror.CodeInvalidInput},
			"a negative one":   {viewer, capacity.MachineFilter{}, paging.Request{First: 1, After: mark("1--1")}, apierror.CodeInvalidInput},
			"the end of times": {viewer, capacity.MachineFilter{}, paging.Request{First: 1, After: mark("9223372036854775807-1")}, apierror.CodeInvalidInput},
		} {
			_, err := s.Reads.Fleet.Machines(t.Context(), call.p, call.f, call.of)
			var refused *apierror.Error
			if call.code == "" {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorAs(t, err, &refused, name)
			require.Equal(t, call.code, refused.Code, name)
		}
	})
}

// TestPricesOfMachines removes old prices, but none at which a machine of the ledger was paid for.
func TestPricesOfMachines(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	pool := ledger(t, s)
	s.Exec(t, "UPDATE machines SET asked_at = now() - interval '100 days', created_at = now() - interval '100 days' WHERE instance_id = 'm2'")
	s.Exec(t, `INSERT INTO pool_prices (pool_id, since, usd) SELECT ?, now() - make_interval(days => d), d FROM unnest('{200,150,99,50,10}'::int[]) d`, pool.ID)
	cost := func() float64 {
		page, err := s.Reads.Fleet.Machines(t.Context(), viewer, capacity.MachineFilter{InstanceID: "m2"}, paging.Request{First: 1})
		require.NoError(t, err)
		return page.Items[0].CostUSD
	}
	before, removed := cost(), 0

	err := jobs.InTx(t.Context(), s.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		removed, err = capacity.DeleteOldPrices(ctx, tx, 30*24*time.Hour, 100)
		return err
	})

	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.InDelta(t, 2*24*(1*150+49*99+40*50+10*10), before, 1)
	require.InDelta(t, before, cost(), 1)
}

func TestMachinesOfATime(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	ledger(t, s)
	ago := func(hours float64) time.Time { return time.Now().Add(-time.Duration(hours * float64(time.Hour))) }
	paid := func(from, until time.Time) map[string]float64 {
		page, err := s.Reads.Fleet.Machines(t.Context(), viewer, capacity.MachineFilter{PaidFrom: from, PaidUntil: until}, paging.Request{First: 50})
		require.NoError(t, err)
		return lo.SliceToMap(page.Items, func(m *capacity.BilledMachine) (string, float64) {
			require.InDelta(t, m.PaidSeconds*3/3600, m.CostUSD, 0.01, m.InstanceID)
			return m.InstanceID, m.PaidSeconds / 3600 / float64(m.Workers)
		})
	}

	for _, c := range []struct {
		from, until time.Time
		want        map[string]float64
	}{
		{ago(1), time.Time{}, map[string]float64{"m1": 1, "m2": 1, "m3": 1, "m4": 1}},
		{ago(3.5), ago(2.5), map[string]float64{"m2": 0.5, "m3": 1, "m4": 1}},
		{ago(5.75), ago(4.01), map[string]float64{"m4": 0.99, "m5": 0.25}},
		{time.Time{}, ago(5.75), map[string]float64{"m5": 0.25}},
	} {
		found := paid(c.from, c.until)
		require.Len(t, found, len(c.want), c)
		for id, hours := range c.want {
			require.InDelta(t, hours, found[id], 0.02, id)
		}
	}
	_, err := s.Reads.Fleet.Machines(t.Context(), viewer, capacity.MachineFilter{PaidFrom: ago(1), PaidUntil: ago(2)}, paging.Request{First: 50})
	require.True(t, apierror.HasCode(err, apierror.CodeInvalidInput), err)
}

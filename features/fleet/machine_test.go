package fleet_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// An agent of an unknown version is a worker like others: its version is only shown.
func TestRegisterVersion(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	for version, valid := range map[string]bool{"": true, "99.0.0-rc.1+unknown": true, strings.Repeat("9", 200): true,
		strings.Repeat("9", 300): false, "1\n2": false, "1\x00": false} {
		in := fleet.Registration{
			Provider: "static", ProviderInstanceID: "one", GPUCount: 1, Region: "here", GPUType: "L4", CapacityClass: models.CapacitySpot,
			Models: []string{"testcard"}, AgentVersion: version,
		}

		w, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)

		if !valid {
			jobstest.RequireInvalid(t, err, "agentVersion")
			continue
		}
		require.NoError(t, err, version)
		require.Equal(t, version, w.AgentVersion)
	}
}

// A manifest names a pool that may not exist yet.
func TestRegisterByPoolName(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	in := fleet.Registration{
		Provider: "static", ProviderInstanceID: "one", GPUCount: 1, PoolID: "spot", Region: "here", GPUType: "L4",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
	}
	spot := func() models.PoolID {
		pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
			Name: "spot", Provider: "static", Region: "here", GPUType: "L4", CapacityClass: models.CapacitySpot,
			Tiers: []models.Tier{models.TierPro}, Models: []string{"testcard"}, MaxWorkers: 4, BootLimitSeconds: 600, PricePerHourUSD: 2,
		}}
		require.NoError(t, capacity.InsertPool(t.Context(), s.DB, pool))
		return pool.ID
	}

	_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)
	jobstest.RequireCode(t, err, apierror.CodeUnavailable)
	require.EqualError(t, err, "There is no pool spot: create it (reelay pools apply), or correct the agent's --pool. Try again in 10 s.")
	id := spot()
	w, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)
	require.NoError(t, err)
	require.Equal(t, id, w.PoolID)
	require.Equal(t, []models.Tier{models.TierPro}, w.Tiers)
	require.InDelta(t, 2, *w.PricePerHourUSD, 0)

	s.Exec(t, "UPDATE pools SET deleted_at = now()")
	_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, in)
	jobstest.RequireCode(t, err, apierror.CodeUnavailable)
	id = spot() // the name belongs to another pool now
	w, _, err = s.Registrar.Register(t.Context(), s.Enrolment, in)
	require.NoError(t, err)
	require.Equal(t, id, w.PoolID)

	before := s.Dump(t)
	for _, bad := range []models.PoolID{"Spot", "spot ", "spot-", "-spot", "s\x00", "%", "pol_1", "../spot", models.PoolID(strings.Repeat("s", 41))} {
		in.PoolID = bad
		_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)
		jobstest.RequireInvalid(t, err, "poolId")
	}
	in.PoolID = models.NewPoolID()
	_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, in)
	jobstest.RequireCode(t, err, apierror.CodeNotFound)
	require.Equal(t, before, s.Dump(t), "a refusal changes nothing")
}

func TestRegisterMachine(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	pool := func(name, provider string, zones ...string) *capacity.Pool {
		p := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
			Name: name, Provider: provider, Region: "us-central1", Zones: zones, GPUType: "L4", CapacityClass: models.CapacitySpot,
			Models: []string{"testcard"}, MaxWorkers: 4, BootLimitSeconds: 600, Settings: json.RawMessage(`{"project": "p"}`),
		}}
		require.NoError(t, capacity.InsertPool(t.Context(), s.DB, p))
		return p
	}
	spot := pool("spot", "gce", "us-central1-a", "us-central1-b")
	other := pool("other", "gce")
	elsewhere := pool("elsewhere", "static")
	tokens := 0
	machine := func(name string) jobs.Principal {
		tokens++
		hash := sha256.Sum256(fmt.Append(nil, tokens))
		return jobs.Principal{Role: access.RoleWorker, Machine: &jobs.Machine{
			Provider: "gce", Project: "p", Zone: "us-central1-a", ID: "12345", Name: name, Token: hash[:], Expires: time.Now().Add(time.Hour),
		}}
	}
	says := func(name string) fleet.Registration {
		return fleet.Registration{
			Provider: "gce", ProviderInstanceID: name, GPUCount: 1, PoolID: spot.ID, Region: "us-central1", GPUType: "L4",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		}
	}

	p := machine("spot-1")
	w, secret, err := s.Registrar.Register(t.Context(), p, says("spot-1"))
	require.NoError(t, err)
	require.Equal(t, "us-central1-a", w.Zone)
	require.Equal(t, "p/us-central1-a/spot-1", w.Machine)
	holder, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, jobs.Principal{Role: access.RoleWorker, WorkerID: w.ID}, holder)
	before := s.Dump(t)

	for name, spoil := range map[string]func(*jobs.Machine, *fleet.Registration){
		"a foreign name":             func(_ *jobs.Machine, in *fleet.Registration) { in.ProviderInstanceID = "spot-1" },
		"a foreign provider":         func(_ *jobs.Machine, in *fleet.Registration) { in.Provider = "static" },
		"a foreign region":           func(_ *jobs.Machine, in *fleet.Registration) { in.Region = "us-east1" },
		"a foreign zone":             func(_ *jobs.Machine, in *fleet.Registration) { in.Zone = "us-central1-b" },
		"a zone the pool lacks":      func(m *jobs.Machine, _ *fleet.Registration) { m.Zone = "us-central1-f" },
		"a zone without a region":    func(m *jobs.Machine, in *fleet.Registration) { m.Zone, in.Region = "x", "us-central1" },
		"a project the pool lacks":   func(m *jobs.Machine, _ *fleet.Registration) { m.Project = "other" },
		"a pool of another provider": func(_ *jobs.Machine, in *fleet.Registration) { in.PoolID = elsewhere.ID },
		"the name of another machine": func(m *jobs.Machine, in *fleet.Registration) {
			m.Name, m.Zone, in.ProviderInstanceID = "spot-1", "us-central1-b", "spot-1"
		},
	} {
		p, in := machine("spot-2"), says("spot-2")
		spoil(p.Machine, &in)
		_, _, err := s.Registrar.Register(t.Context(), p, in)
		require.Error(t, err, name)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
	}
	in := says("spot-2")
	in.PoolID = ""
	_, _, err = s.Registrar.Register(t.Context(), machine("spot-2"), in)
	jobstest.RequireInvalid(t, err, "poolId")
	_, _, err = s.Registrar.Register(t.Context(), p, says("spot-1"))
	jobstest.RequireCode(t, err, apierror.CodeUnauthenticated)
	require.ErrorContains(t, err, "has registered a worker before")
	_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, says("spot-1"))
	jobstest.RequireCode(t, err, apierror.CodeForbidden)
	require.Equal(t, before, s.Dump(t), "a refusal changes nothing")

	// The same machine, or one that has its name now, takes its own place over. It may call
	// itself by its number.
	again, _, err := s.Registrar.Register(t.Context(), machine("spot-1"), says("spot-1"))
	require.NoError(t, err)
	require.NotEqual(t, w.ID, again.ID)
	require.Equal(t, models.WorkerTerminated, jobstest.WorkerStatus(t, s, w.ID))
	_, _, err = s.Registrar.Register(t.Context(), machine("spot-3"), says("12345"))
	require.NoError(t, err)

	named := says("spot-9")
	named.PoolID = models.PoolID(spot.Name)
	w, _, err = s.Registrar.Register(t.Context(), machine("spot-9"), named)
	require.NoError(t, err)
	require.Equal(t, spot.ID, w.PoolID)

	// A place that a key has.
	_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, says("spot-4"))
	require.NoError(t, err)
	_, _, err = s.Registrar.Register(t.Context(), machine("spot-4"), says("spot-4"))
	jobstest.RequireCode(t, err, apierror.CodeForbidden)

	// A machine that boots for one pool does not join another.
	s.Exec(t, `INSERT INTO workers (id, pool_id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status)
		VALUES (gen_random_uuid(), ?, 'gce', 'spot-5', 'us-central1', 'L4', 'SPOT', '{testcard}', 'BOOTING')`, spot.ID)
	in = says("spot-9")
	in.PoolID = other.ID
	_, _, err = s.Registrar.Register(t.Context(), machine("spot-5"), in)
	jobstest.RequireCode(t, err, apierror.CodeForbidden)
	booted, _, err := s.Registrar.Register(t.Context(), machine("spot-5"), says("spot-5"))
	require.NoError(t, err)
	require.Equal(t, models.WorkerIdle, jobstest.WorkerStatus(t, s, booted.ID))
	require.Equal(t, "p/us-central1-a/spot-5", booted.Machine)

	// Hashes of expired tokens are deleted.
	s.Exec(t, "UPDATE used_identities SET expires_at = now() - interval '2 minutes'")
	_, _, err = s.Registrar.Register(t.Context(), machine("spot-6"), says("spot-6"))
	require.NoError(t, err)
	var kept int
	require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM used_identities").Scan(t.Context(), &kept))
	require.Equal(t, 1, kept)
	s.RequireInvariants(t)
}

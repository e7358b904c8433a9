package gce_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/identity"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/compute/v1"
)

func TestLive(t *testing.T) {
	t.Parallel()
	all := strings.Fields("list create find repeat find wait register preempt delete costs")
	later := func(others map[string]string) map[string]string {
		others["costs"] = gce.LiveLater
		return others
	}

	for name, c := range map[string]struct {
		arrange func(*fakegce.Server, *capacity.Pool)
		steps   []string          // the first words of those that were done
		results map[string]string // of those that are not OK, by their first word
		says    string
	}{
		"AllIsWell": {func(*fakegce.Server, *capacity.Pool) {}, all, later(map[string]string{}), "ENDED and reclaimed"},
		"OnDemand": {func(_ *fakegce.Server, p *capacity.Pool) { p.CapacityClass = models.CapacityOnDemand }, all,
			later(map[string]string{"preempt": gce.LiveUntested}), "the pool is not SPOT"},
		"NoServiceAccount": {func(_ *fakegce.Server, p *capacity.Pool) {
			p.Settings = []byte(strings.Replace(string(p.Settings), `"serviceAccount":"`+workerAccount+`"`, `"serviceAccount":""`, 1))
		}, all, later(map[string]string{"register": gce.LiveUntested}), "no settings.serviceAccount"},
		"GuestAttributesAreForbidden": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.getGuestAttributes", Status: 403, Reason: "forbidden", Message: "by a policy",
				Times: -1})
		}, all, later(map[string]string{"register": gce.LiveUntested}), "compute.instances.getGuestAttributes"},
		"GuestAttributesFailInPassing": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.getGuestAttributes", Status: 503, Reason: "backendError", Times: 5})
		}, all, later(map[string]string{}), "signed by Google for this run"},
		"SoldOut": {func(s *fakegce.Server, _ *capacity.Pool) {
			for _, zone := range []string{zoneA, zoneB, zoneC} {
				s.Limit(zone, 0)
			}
		}, []string{"list", "create", "clean"}, map[string]string{"create": gce.LiveUntested}, "STOCKOUT"},
		"Denied": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.insert", Status: 403, Reason: "forbidden", Message: "compute.instances.create",
				Times: -1})
		}, []string{"list", "create", "clean"}, map[string]string{"create": gce.LiveWrong}, "compute.instances.create"},
		"AnOutage": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.aggregatedList", Status: 503, Reason: "backendError", Times: -1})
		}, []string{"list"}, map[string]string{"list": gce.LiveWrong}, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _ := start(t)
			furnish(server)
			pool := newPool(t, showing)
			c.arrange(server, pool)
			var told []gce.LiveStep

			report, err := lively(t, server, pool, func(s gce.LiveStep) { told = append(told, s) }).Run(t.Context())

			require.NoError(t, err)
			require.Equal(t, report.Steps, told)
			var steps []string
			results := map[string]string{}
			for _, s := range report.Steps {
				first, _, _ := strings.Cut(s.Step, " ")
				steps = append(steps, first)
				if s.Result != gce.LiveOK {
					results[first] = s.Result
				}
			}
			require.Equal(t, c.steps, steps, report.Steps)
			require.Equal(t, c.results, results, report.Steps)
			require.Contains(t, report.Markdown(), c.says)
			require.NotContains(t, report.Markdown(), enrolmentKey)
			require.NotContains(t, report.Markdown(), "eyJ", "an identity token")
			require.Equal(t, slices.Contains(steps, "costs"), strings.Contains(report.Markdown(),
				"WHERE project.id = '"+fakegce.Project+"'"))
			require.Empty(t, server.Instances())
			require.Empty(t, report.Remaining)
		})
	}

	t.Run("DeletesTheMachineWhenInterrupted", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		ctx, cancel := context.WithCancel(t.Context())

		report, err := lively(t, server, newPool(t, showing), func(s gce.LiveStep) {
			if strings.HasPrefix(s.Step, "find") {
				made := server.Instances()
				require.Len(t, made, 1)
				require.Equal(t, int64(600), made[0].Scheduling.MaxRunDuration.Seconds, "Compute Engine deletes it by itself")
				cancel()
			}
		}).Run(ctx)

		require.NoError(t, err)
		require.False(t, report.Passed())
		require.Empty(t, report.Remaining)
		require.Empty(t, server.Instances())
	})

	t.Run("SaysWhatMayStillRun", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		server.Inject(fakegce.Fault{Method: "instances.delete", Status: 403, Reason: "forbidden", Message: "no", Times: -1})
		pool := newPool(t, showing)
		pool.CapacityClass = models.CapacityOnDemand

		report, err := lively(t, server, pool, nil).Run(t.Context())

		require.NoError(t, err)
		require.False(t, report.Passed())
		require.Equal(t, report.Machine, report.Remaining)
		require.Contains(t,
			report.Markdown(), "gcloud compute instances delete "+report.Machine+" --project="+fakegce.Project+" --zone="+report.Zone)
	})

	t.Run("RefusesABadPool", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		pool := newPool(t, showing)
		pool.Zones = nil

		_, err := lively(t, server, pool, nil).Run(t.Context())

		require.ErrorContains(t, err, "zones is empty")
		require.Empty(t, server.Instances())
	})
}

// workerAccount is the service account of machines that show their identity.
const workerAccount = "worker@" + fakegce.Project + ".iam.gserviceaccount.com"

// issuer signs for all tests, since making a key takes long.
var issuer = sync.OnceValue(func() *fakegce.Issuer {
	i, err := fakegce.StartIssuer()
	if err != nil {
		panic(err)
	}
	return i
})

// verify verifies tokens as the API does.
func verify(ctx context.Context, token string, as gce.API) (*jobs.Machine, error) {
	return identity.New(identity.Config{Audience: as.Audience, Projects: []string{as.Project}, Accounts: []string{as.Account},
		KeysURL: issuer().URL, Now: func() time.Time { return time.Now().Add(as.Ahead) }}).Verify(ctx, token)
}

func showing(settings map[string]any) { settings["serviceAccount"] = workerAccount }

func lively(t *testing.T, server *fakegce.Server, pool *capacity.Pool, done func(gce.LiveStep)) gce.Live {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(enrolmentKey), 0o600))
	server.RunScripts(issuer())
	return gce.Live{
		Config: gce.Config{APIEndpoint: server.URL, Enrolment: fleet.Enrolment{Endpoint: "https://reelay.invalid", KeyFile: key},
			CallTimeout: 10 * time.Second, Retry: time.Millisecond},
		Pool: pool.PoolSpec, Wait: 20 * time.Second, Poll: 20 * time.Millisecond, Done: done, Verify: verify,
	}
}

// TestLiveIdentity lets a machine show what an impostor could, or nothing.
func TestLiveIdentity(t *testing.T) {
	t.Parallel()

	// audience returns the audience of the run that made a machine.
	audience := func(i *compute.Instance) string { return metadata(i.Metadata)["identity-audience"] }
	token := func(t *testing.T, audience string, i *compute.Instance, claims ...func(map[string]any)) string {
		token, err := issuer().Token(audience, i, claims...)
		require.NoError(t, err)
		return token
	}
	other := func(i *compute.Instance, change func(*compute.Instance)) *compute.Instance {
		copied := *i
		change(&copied)
		return &copied
	}
	for name, c := range map[string]struct {
		shows  func(t *testing.T, i *compute.Instance) string
		result string
		says   string
	}{
		"Itself": {func(t *testing.T, i *compute.Instance) string { return token(t, audience(i), i) }, gce.LiveOK,
			"refused for another run"},
		"TheTokenOfAnotherRun": {func(t *testing.T, i *compute.Instance) string {
			return token(t, "https://reelay.invalid/doctor/5f0c6a9e-5a0b-4a58-9a4e-6a6c7a8b9c0d", i)
		}, gce.LiveWrong, "its audience is wrong"},
		"AnExpiredToken": {func(t *testing.T, i *compute.Instance) string {
			return token(t, audience(i), i, func(c map[string]any) {
				c["iat"], c["exp"] = time.Now().Add(-2*time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()
			})
		}, gce.LiveWrong, "it has expired"},
		"AnOldToken": {func(t *testing.T, i *compute.Instance) string {
			return token(t, audience(i), i, func(c map[string]any) { c["iat"] = time.Now().Add(-11 * time.Minute).Unix() })
		}, gce.LiveWrong, "older than 10 minutes"},
		"AMachineOfTheSameNameBefore": {func(t *testing.T, i *compute.Instance) string {
			return token(t, audience(i), other(i, func(i *compute.Instance) { i.Id++ }))
		}, gce.LiveWrong, "and not of reelay-test-"},
		"AnotherMachine": {func(t *testing.T, i *compute.Instance) string {
			return token(t, audience(i), other(i, func(i *compute.Instance) { i.Name = "impostor" }))
		}, gce.LiveWrong, "the token is that of the machine impostor"},
		"AnotherZone": {func(t *testing.T, i *compute.Instance) string {
			return token(t, audience(i), other(i, func(i *compute.Instance) { i.Zone = "zones/us-central1-f" }))
		}, gce.LiveWrong, "in us-central1-f"},
		"AnotherProject": {func(t *testing.T, i *compute.Instance) string {
			return token(t, audience(i), i, func(c map[string]any) {
				c["google"].(map[string]any)["compute_engine"].(map[string]string)["project_id"] = "evil-project"
			})
		}, gce.LiveWrong, "REELAY_GCE_IDENTITY_PROJECTS"},
		"AnotherAccount": {func(t *testing.T, i *compute.Instance) string {
			return token(t,
				audience(i), i, func(c map[string]any) { c["email"] = "default@" + fakegce.Project + ".iam.gserviceaccount.com" })
		}, gce.LiveWrong, "REELAY_GCE_IDENTITY_ACCOUNTS"},
		"AnotherIssuer": {func(t *testing.T, i *compute.Instance) string {
			forger, err := fakegce.StartIssuer()
			require.NoError(t, err)
			defer forger.Close()
			token, err := forger.Token(audience(i), i)
			require.NoError(t, err)
			return token
		}, gce.LiveWrong, "its signature or issuer is wrong"},
		"Garbage": {func(*testing.T, *compute.Instance) string { return "eyJ.\x1b[2J|`" + strings.Repeat("x", 1<<16) }, gce.LiveWrong,
			"signature or issuer"},
		"Nothing": {func(*testing.T, *compute.Instance) string { return "" }, gce.LiveUntested, "the machine showed no identity within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _ := start(t)
			furnish(server)
			live := lively(t, server, newPool(t, showing), nil)
			live.Wait = time.Second
			var shown string
			server.OnRunning(func(_ context.Context, i *compute.Instance) {
				shown = c.shows(t, i)
				server.SetGuestAttribute(filepath.Base(i.Zone), i.Name, "reelay/identity", shown)
			})

			report, err := live.Run(t.Context())

			require.NoError(t, err)
			at := slices.IndexFunc(report.Steps, func(s gce.LiveStep) bool { return s.Step == "register by identity" })
			require.GreaterOrEqual(t, at, 0)
			require.Equal(t, c.result, report.Steps[at].Result, report.Steps[at])
			require.Contains(t, report.Steps[at].Says, c.says)
			require.Equal(t, c.result != gce.LiveWrong, report.Passed())
			require.Equal(t, "delete it", report.Steps[len(report.Steps)-2].Step, "the others are done")
			if shown != "" {
				require.NotContains(t, report.Markdown(), shown)
			}
			require.Empty(t, server.Instances())
		})
	}

	t.Run("SaysWhatTheMachineSays", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		pool := newPool(t, func(settings map[string]any) { // the account of the template is unknown
			settings["template"] = "projects/p/global/instanceTemplates/t"
		})

		report, err := lively(t, server, pool, nil).Run(t.Context())

		require.NoError(t, err)
		require.True(t, report.Passed(), report.Steps)
		require.Contains(t, report.Markdown(), "the machine says: the metadata server gave no identity token")
	})

	t.Run("SaysWhatComputeEngineSays", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		live := lively(t, server, newPool(t, showing), nil)
		live.Wait = time.Second
		server.Inject(fakegce.Fault{Method: "instances.getGuestAttributes", Status: 412, Reason: "conditionNotMet", Message: "not here",
			Times: -1})

		report, err := live.Run(t.Context())

		require.NoError(t, err)
		require.Contains(t, report.Markdown(), "not here")
		require.True(t, report.Passed(), report.Steps)
	})

	t.Run("CanBeInterrupted", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		ctx, cancel := context.WithCancel(t.Context())
		live := lively(t, server, newPool(t, showing), nil)
		server.OnRunning(func(context.Context, *compute.Instance) {
			testrun.Eventually(t, "the doctor looks for the token", func() bool { return len(server.Calls("instances.getGuestAttributes")) > 0 })
			cancel()
		})

		report, err := live.Run(ctx)

		require.NoError(t, err)
		require.False(t, report.Passed())
		require.Equal(t, "clean up", report.Steps[len(report.Steps)-2].Step, report.Steps)
		require.NotContains(t, report.Markdown(), "preempt")
		require.Empty(t, server.Instances())
	})

	t.Run("AddsToThePoolsMetadata", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		pool := newPool(t, showing, func(settings map[string]any) { settings["metadata"] = map[string]string{"enable-oslogin": "TRUE"} })

		report, err := lively(t, server, pool, nil).Run(t.Context())

		require.NoError(t, err)
		require.True(t, report.Passed(), report.Steps)
		made := metadata(body[compute.Instance](t, server, "instances.insert").Metadata)
		require.Equal(t, "TRUE", made["enable-oslogin"])
		require.Equal(t, "TRUE", made["enable-guest-attributes"])
		require.NotContains(t, made, "reelay-container")
	})
}

package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/regions"
	"github.com/reelay/reelay/web/console/system"
	"github.com/stretchr/testify/require"
)

var _ = alsoPages(func(*testing.T, *browser) map[string]string {
	return map[string]string{"doctor": "/doctor", "system": "/system"}
})

// examined is a console whose doctor does this.
func examined(t *testing.T, examine func(progress func(done, of int, next string)) ([]doctor.Finding, error)) *browser {
	t.Helper()
	stack := jobstest.New(t)
	config := configure(stack)
	config.Examine = func(_ context.Context, progress func(done, of int, next string)) ([]doctor.Finding, error) {
		return examine(progress)
	}
	b := serve(t, stack, config)
	b.logIn(t)
	return b
}

func TestDoctorPage(t *testing.T) {
	t.Parallel()
	// result waits for the end of the checks, and returns the page.
	result := func(t *testing.T, b *browser, path string) string {
		t.Helper()
		for part := range b.stream(t, path, "") {
			if strings.Contains(part, "Run again") {
				return part
			}
		}
		require.Fail(t, "the stream ended without a result")
		return ""
	}

	t.Run("ShowsWhatIsWrongAndWhatToDo", func(t *testing.T) {
		t.Parallel()
		var problem error
		b := examined(t, func(func(done, of int, next string)) ([]doctor.Finding, error) {
			return []doctor.Finding{
				{Check: "redis", Level: doctor.LevelOK, Holds: "Redis answers."},
				{Check: "schema", Level: doctor.LevelBroken, Holds: "The schema is current.", Found: "It is <old>.", Matters: "Queries fail.",
					Fix: "Run reelay migrate."},
			}, problem
		})

		require.Equal(t, http.StatusOK, b.get(t, "/doctor").Status)
		for _, page := range []string{result(t, b, "/doctor/live"), b.get(t, "/doctor").Body} {
			for _, text := range []string{"1 of 2 checks passed", "is-broken", "It is &lt;old&gt;.", "Queries fail.", "Run reelay migrate.",
				"Redis answers.", "Run again"} {
				require.Contains(t, page, text)
			}
		}

		problem = errors.New("PostgreSQL is away")
		again := b.post(t, "/doctor", nil)
		require.Equal(t, http.StatusSeeOther, again.Status)
		require.Contains(t, result(t, b, strings.Replace(again.Header.Get("Location"), "/doctor", "/doctor/live", 1)), "PostgreSQL is away")
	})

	t.Run("RunsByItselfAndNeverTwiceAtOnce", func(t *testing.T) {
		t.Parallel()
		var runs atomic.Int32
		began, end := make(chan struct{}, 100), make(chan struct{})
		b := examined(t, func(progress func(done, of int, next string)) ([]doctor.Finding, error) {
			runs.Add(1)
			progress(3, 12, "the ready index")
			began <- struct{}{}
			<-end
			return nil, nil
		})

		b.get(t, "/doctor")
		<-began
		for range 5 {
			page := b.get(t, "/doctor").Body
			require.Contains(t, page, "3 of 12, now the ready index,")
			require.Contains(t, page, "/doctor/live?after=")
			require.NotContains(t, page, "Run again")
			require.Equal(t, http.StatusSeeOther, b.post(t, "/doctor", nil).Status)
		}
		shown := b.stream(t, "/doctor/live", "")
		require.Contains(t, <-shown, "3 of 12, now the ready index,")
		close(end)
		require.Contains(t, <-shown, "Run again")
		for range 5 {
			require.Contains(t, b.get(t, "/doctor").Body, "Run again")
		}
		require.EqualValues(t, 1, runs.Load())

		b.post(t, "/doctor", nil)
		<-began
		require.EqualValues(t, 2, runs.Load(), "an operator may ask for it at any time")
	})

	t.Run("IsNotRunByViewers", func(t *testing.T) {
		t.Parallel()
		b := examined(t, func(func(done, of int, next string)) ([]doctor.Finding, error) {
			t.Error("a viewer ran the checks")
			return nil, nil
		})
		logInAs(t, b, access.RoleViewer)

		require.Contains(t, b.get(t, "/doctor").Body, "Run the checks")
		for range b.stream(t, "/doctor/live", "") { // it ends
		}
	})

	t.Run("SurvivesAPanic", func(t *testing.T) {
		t.Parallel()
		b := examined(t, func(func(done, of int, next string)) ([]doctor.Finding, error) { panic("a broken check") })

		require.Contains(t, result(t, b, "/doctor/live"), "panic: a broken check")
	})

	t.Run("ShowsTheResultInABrowser", func(t *testing.T) {
		t.Parallel()
		end := make(chan struct{})
		b := examined(t, func(progress func(done, of int, next string)) ([]doctor.Finding, error) {
			progress(1, 2, "the schema")
			<-end
			return []doctor.Finding{{Check: "redis", Level: doctor.LevelOK, Holds: "Redis answers."}}, nil
		})
		ctx, complaints := b.open(t, "/doctor")

		require.NoError(t, chromedp.Run(ctx,
			chromium.Until("document.querySelector('.examining')?.textContent.includes('1 of 2, now the schema')")))
		close(end)
		require.NoError(t, chromedp.Run(ctx,
			chromium.Until("document.querySelector('#live').textContent.includes('1 of 1 checks passed') && document.querySelector('#stale').hidden")))
		require.Empty(t, complaints())
	})
}

// twoRegions is how two regions stand after a night with everything that can be wrong.
func twoRegions() *region.Report {
	at := time.Now().Add(-3 * time.Hour)
	newest := regions.Promotion{Epoch: 3, Region: "europe-west4", At: at, By: "root@db2.europe-west4.internal " + markup, Installation: "one"}
	claims := []region.Claim{
		{Region: "us-central1", Epoch: 3, Installation: "one"}, {Region: "us-central1", Epoch: 2, Primary: true, Installation: "one"},
		{Region: "us-east1", Epoch: 3, Installation: "one", Overtaken: true}, {Region: "asia-east1", Epoch: 1, Installation: "two"},
	}
	peers := []region.Peer{{Address: "https://api.a-region-with-a-long-name.reelay.example.internal:8443", Failure: "it does not answer: " + markup}}
	for i, c := range claims {
		peers = append(peers, region.Peer{Address: fmt.Sprintf("https://api-%d.internal", i), Claim: &c, AnsweredAt: new(time.Now().Add(-time.Second))})
	}
	return (&region.Standing{
		Region: "europe-west4", Newest: newest, Peers: peers,
		Promotions: []regions.Promotion{newest, {Epoch: 2, Region: "us-central1", At: at.Add(-time.Hour), Learned: true},
			{Epoch: 1, Region: "europe-west4", At: at.Add(-1000 * time.Hour)}},
		Server: regions.Server{Synchronous: `ANY 1 ("us-central1", "europe-west4-b")`, Standbys: []regions.Standby{
			{Name: "us-central1", State: "quorum", LagSeconds: new(3.5), BehindBytes: new(int64(7 << 20))}, {Name: "reports", State: "async"}, {Name: "hidden"},
		}},
	}).Report()
}

func TestRegionsOnTheSystemPage(t *testing.T) {
	t.Parallel()

	t.Run("AreShown", func(t *testing.T) {
		t.Parallel()
		page := operator(t).get(t, "/system").Body
		for _, words := range []string{
			"europe-west4, this one", "commits wait for it, or for another; 7.3 MB behind, 3.5 s", "commits do not wait for it", "docs/operators/regions.md",
			"is-silent", "is-serves_too", "is-overtaken", "is-foreign", "is-waits", "It does not answer:", "claims to be the primary, too (epoch 2; here it is 3)",
			"Within a day, look there for jobs", "the first start", "another region told of it", "root@db2", "never",
		} {
			require.Contains(t, page, words)
		}
	})

	t.Run("AreAbsentIfThereIsOne", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		config.Region = nil
		b := serve(t, stack, config)
		b.logIn(t)
		require.NotContains(t, b.get(t, "/system").Body, "Regions")
	})

	t.Run("DoNotHideThePageIfTheyAreNotKnown", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		config.Region = func(context.Context) (*region.Report, error) { return nil, errors.New("secret words") }
		b := serve(t, stack, config)
		b.logIn(t)
		page := b.get(t, "/system").Body
		require.Contains(t, page, "PostgreSQL does not say how the regions stand.")
		require.Contains(t, page, "Processes of the last hour")
		require.NotContains(t, page, "secret words")
	})

	t.Run("SayThatNoWriteSucceeds", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		config.Region = func(context.Context) (*region.Report, error) {
			return (&region.Standing{Region: "eu", Server: regions.Server{CommitsWait: true, Synchronous: "us",
				Standbys: []regions.Standby{{Name: "walreceiver", State: "async"}}}}).Report(), nil
		}
		b := serve(t, stack, config)
		b.logIn(t)
		page := b.get(t, "/system").Body
		require.Contains(t, page, "Commits wait for us, and no standby of that name follows (walreceiver does): no write succeeds.")
		require.Contains(t, page, "ALTER SYSTEM RESET synchronous_standby_names")
	})

	t.Run("SayThatNoneIsNamed", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		config.Region = func(context.Context) (*region.Report, error) { return (&region.Standing{Region: "eu"}).Report(), nil }
		b := serve(t, stack, config)
		b.logIn(t)
		page := b.get(t, "/system").Body
		for _, words := range []string{"REELAY_REGION_PEERS names none", "None yet.", "none: the other region cannot take over", "no standby: a promotion loses"} {
			require.Contains(t, page, words)
		}
	})
}

func TestSystemPage(t *testing.T) {
	t.Parallel()

	t.Run("ShowsWhatReelayRunsOn", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		config.Redis = func(context.Context) *system.Redis {
			return &system.Redis{Kind: "A primary with Sentinels", Version: "7.0.<15>", Ping: 1234 * time.Microsecond,
				UsedBytes: new(int64(3 << 20)), Replicas: new(int64(1)), BehindBytes: new(int64(2048))}
		}
		b := serve(t, stack, config)
		b.logIn(t)
		b.Worker(t, "one")
		b.Exec(t, "UPDATE workers SET agent_version = '0.0.1-old'")
		b.Exec(t, "INSERT INTO api_processes (id, seen_at) VALUES ('a1b2c3d4-0000-4000-8000-000000000000', clock_timestamp() - interval '1 minute')")

		page := b.get(t, "/system").Body
		first, second := &lease.Presence{DB: b.DB, Kind: models.ProcessAPI, Version: "0.1.0", Host: "host-<a>"},
			&lease.Presence{DB: b.DB, Kind: models.ProcessControl, Version: "0.2.0"}
		require.NoError(t, first.Pass(t.Context()))
		require.NoError(t, second.Pass(t.Context()))
		told := b.get(t, "/system").Body
		second.End(t.Context())
		alone := b.get(t, "/system").Body

		require.Contains(t, told, "The processes run different versions.")
		require.Regexp(t, `(?s)api [0-9a-f]{8}.*?0\.1\.0.*?host-&lt;a&gt;.*?control [0-9a-f]{8}.*?0\.2\.0`, told)
		require.NotContains(t, alone, "different versions")
		require.Contains(t, alone, ">control<", "some process of control may not tell its version")
		require.Regexp(t, `(?s)Answers in.*?1\.2 ms.*?behind by`, page)

		for _, text := range []string{"A primary with Sentinels", "7.0.&lt;15&gt;",
			"api a1b2c3d4", "is-silent", ">control<", "0.0.1-old", "Some workers run another version",
			"Oldest message of the outbox"} {
			require.Contains(t, page, text)
		}
	})
}

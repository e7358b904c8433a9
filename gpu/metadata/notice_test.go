package metadata

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests are not parallel: the environment leads to the fake server, as it does for an agent.

func TestGCE(t *testing.T) {
	t.Run("TellsOfAPreemptionOnce", func(t *testing.T) {
		c := newCloud(t)
		notices, _ := c.watch(GCE)
		c.await(preemptedPath)
		require.Empty(t, notices)

		c.set(preemptedPath, "TRUE")

		n := <-notices
		require.Equal(t, "Compute Engine preempts this machine", n.Reason)
		require.WithinDuration(t, time.Now().Add(30*time.Second), n.Deadline, 10*time.Second)
		c.set(preemptedPath, "FALSE") // flaps
		c.set(preemptedPath, "TRUE")
		c.set(maintenancePath, "TERMINATE_ON_HOST_MAINTENANCE")
		require.Equal(t, "Compute Engine stops this machine for maintenance of its host", (<-notices).Reason)
		require.Empty(t, notices)
	})

	t.Run("WaitsForAChange", func(t *testing.T) {
		c := newCloud(t)
		c.watch(GCE)
		c.await(preemptedPath)
		c.await(preemptedPath) // this request waits

		c.mu.Lock()
		defer c.mu.Unlock()
		require.True(t, slices.ContainsFunc(c.asked, func(url string) bool {
			return strings.HasPrefix(url, preemptedPath) && strings.Contains(url, "wait_for_change=true&timeout_sec=5&last_etag=3")
		}), c.asked)
	})

	t.Run("IgnoresWhatLeavesTheMachineRunning", func(t *testing.T) {
		c := newCloud(t)
		notices, _ := c.watch(GCE)
		for _, value := range []string{"MIGRATE_ON_HOST_MAINTENANCE", "", "true", "TRUE TRUE"} {
			c.set(maintenancePath, value)
			c.set(preemptedPath, value)
		}
		c.set(maintenancePath, "TERMINATE_ON_HOST_MAINTENANCE")

		require.Contains(t, (<-notices).Reason, "maintenance")
		require.Empty(t, notices)
	})

	for name, fault := range map[string]http.HandlerFunc{
		"IsUnreachable":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"KnowsNoSuchValue": http.NotFound,
		"IsSomebodyElses":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "TRUE") },
		"LeadsElsewhere":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/TRUE", http.StatusFound) },
		"AnswersWithTenMegabytes": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Metadata-Flavor", "Google")
			io.WriteString(w, strings.Repeat("TRUE\n", 2<<20))
		},
		"AnswersWithGarbage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Metadata-Flavor", "Google")
			w.Header().Set("ETag", "\x01&\u00e9")
			w.Write([]byte{0, 0xff, 'T', 'R', 'U', 'E'})
		},
	} {
		t.Run("RecoversAfterAServerThat"+name, func(t *testing.T) {
			c := newCloud(t)
			c.broken(fault)
			notices, log := c.watch(GCE)
			for range 4 {
				c.await(preemptedPath)
			}
			require.Empty(t, notices)
			require.LessOrEqual(t, strings.Count(log.String(), "does not answer"), 2, "once per value")

			c.broken(nil)
			c.set(preemptedPath, "TRUE")

			require.Contains(t, (<-notices).Reason, "preempts")
		})
	}

	t.Run("EndsWhileTheServerHangs", func(t *testing.T) {
		c := newCloud(t)
		c.broken(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		notices, _ := c.watch(GCE)
		c.await(preemptedPath)
		require.Empty(t, notices)
	})
}

func TestEC2(t *testing.T) {
	t.Run("TellsTheTimeOfTheDocument", func(t *testing.T) {
		c := newCloud(t)
		notices, log := c.watch(EC2)
		c.await(actionPath)
		c.set(rebalancePath, `{"noticeTime": "2026-10-27T08:22:00Z"}`)
		c.await(rebalancePath)
		c.await(actionPath)
		require.Empty(t, notices, "a recommendation is no notice")
		c.mu.Lock()
		c.token++ // the session has expired
		c.mu.Unlock()
		at := time.Now().Add(2 * time.Minute).UTC().Truncate(time.Second)

		c.set(actionPath, `{"action": "terminate", "time": "`+at.Format(time.RFC3339)+`"}`)

		require.Equal(t, Notice{Reason: "EC2 terminates this machine", Deadline: at}, <-notices)
		require.Equal(t, 1, strings.Count(log.String(), "recommends"))
	})

	t.Run("IsReadByTheClockOfTheServer", func(t *testing.T) {
		for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			c := newCloud(t)
			c.headers["Date"] = time.Now().Add(ahead).UTC().Format(http.TimeFormat)
			c.values.Store(actionPath, `{"action": "stop", "time": "`+time.Now().Add(ahead+2*time.Minute).UTC().Format(time.RFC3339)+`"}`)
			notices, _ := c.watch(EC2)

			require.WithinDuration(t, time.Now().Add(2*time.Minute), (<-notices).Deadline, 30*time.Second)
		}
	})

	t.Run("AssumesATimeWhereTheDocumentsIsImpossible", func(t *testing.T) {
		for _, at := range []string{"2017-09-18T08:22:00Z", "2317-09-18T08:22:00Z"} {
			c := newCloud(t)
			notices, _ := c.watch(EC2)
			c.set(actionPath, `{"action": "stop", "time": "`+at+`"}`)

			require.WithinDuration(t, time.Now().Add(30*time.Second), (<-notices).Deadline, 10*time.Second)
		}
	})

	t.Run("IgnoresADocumentThatCannotBeRead", func(t *testing.T) {
		c := newCloud(t)
		notices, log := c.watch(EC2)
		for _, document := range []string{"", "[]", "TRUE", `{"action": "dance"}`, `{"action": "stop", "time": 7}`, strings.Repeat("x", 10<<20)} {
			c.set(actionPath, document)
			for len(c.seen) > 0 {
				<-c.seen
			}
			c.await(actionPath)
			c.await(actionPath)
		}
		require.Empty(t, notices)
		require.Contains(t, log.String(), "does not answer")
		c.set(actionPath, `{"action": "stop"}`)
		require.Equal(t, "EC2 stops this machine", (<-notices).Reason)
	})
}

func TestProbe(t *testing.T) {
	t.Run("FindsComputeEngine", func(t *testing.T) {
		c := newCloud(t)
		c.set(preemptedPath, "TRUE")
		notices, _ := c.watch(Auto)
		require.Contains(t, (<-notices).Reason, "Compute Engine")
	})

	t.Run("FindsEC2", func(t *testing.T) {
		c := newCloud(t)
		c.headers = nil // not Google's
		c.set(actionPath, `{"action": "hibernate"}`)
		notices, _ := c.watch(Auto)
		require.Equal(t, "EC2 hibernates this machine", (<-notices).Reason)
	})

	t.Run("FindsNothingAndEnds", func(t *testing.T) {
		c := newCloud(t)
		c.broken(http.NotFound)
		c.watch(Auto)
		for range probes {
			c.await(tokenPath)
		}
	})
}

func TestIdentity(t *testing.T) {
	c := newCloud(t)
	_, err := Identity(t.Context(), "https://reelay.example")
	require.ErrorContains(t, err, "it needs a service account")

	c.set(identityPath, "not a token")
	_, err = Identity(t.Context(), "https://reelay.example")
	require.ErrorContains(t, err, "is not a token")

	c.set(identityPath, "a.b.c")
	token, err := Identity(t.Context(), "https://reelay.example/?a&b")
	require.NoError(t, err)
	require.Equal(t, "a.b.c", token)
	require.Regexp(t, "^"+regexp.QuoteMeta(identityPath+"?audience=https%3A%2F%2Freelay.example%2F%3Fa%26b%23")+"[A-Z0-9]{26}&format=full$",
		c.asked[len(c.asked)-1])
	_, err = Identity(t.Context(), "https://reelay.example/?a&b")
	require.NoError(t, err)
	require.NotEqual(t, c.asked[len(c.asked)-2], c.asked[len(c.asked)-1], "each token is another one")
}

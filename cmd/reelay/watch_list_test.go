package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

// TestInterruptedWatch covers Ctrl-C of commands that follow a job.
func TestInterruptedWatch(t *testing.T) {
	t.Parallel()

	for _, command := range []string{"watch job_1", "logs -f job_1", "events -f job_1"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			interrupt()

			status, _, errs := call(t, ctx, append(strings.Fields(command), "--endpoint", "http://127.0.0.1:1", "--key", "rl_x")...)

			require.Equal(t, terminal.ExitInterrupted, status, errs)
			require.Contains(t, errs, "the job continues")
		})
	}
}

// TestWatchList covers --watch of lists.
func TestWatchList(t *testing.T) {
	t.Parallel()

	queue := func(tier string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"data": {"queues": [{"tier": "` + tier + `", "depth": 3, "running": 1}]}}`))
		}
	}
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"errors": [{"message": "The server starts.", "extensions": {"code": "UNAUTHENTICATED"}}]}`))
	}

	t.Run("PrintsAListAgainIfItChanged", func(t *testing.T) {
		t.Parallel()
		ctx, interrupt := context.WithCancel(t.Context())
		_, url := serveFaulty(t, queue("PRO"), queue("PRO"), queue("BATCH"), func(w http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		})

		status, out, errs := call(t, ctx, "queues", "--watch=1s", "--jq", ".items[].tier", "--endpoint", url, "--key", "rl_x")

		require.Zero(t, status, errs)
		require.Equal(t, "PRO\nBATCH\n", out)
	})

	t.Run("EndsWithAnErrorThatStays", func(t *testing.T) {
		t.Parallel()
		_, url := serveFaulty(t, queue("PRO"), busy)

		status, out, errs := call(t, t.Context(), "queues", "-w=1s", "--endpoint", url, "--key", "rl_x")

		require.Equal(t, terminal.ExitFailed, status)
		require.Equal(t, 1, strings.Count(out, "PRO"))
		require.Contains(t, errs, "key")
	})

	t.Run("RefusesAnotherInterval", func(t *testing.T) {
		t.Parallel()
		for _, every := range []string{"0s", "1ms", "2", "never", "2h"} {
			status, _, errs := call(t, t.Context(), "queues", "--watch="+every)

			require.Equal(t, terminal.ExitUsage, status)
			require.Contains(t, errs, "from 1s to 1h")
		}
	})
}

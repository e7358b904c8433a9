package front

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	t.Parallel()

	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	ask := func(ctx context.Context, g *Gate, path string) int {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		return w.Code
	}

	t.Run("HoldsRequestsUntilItOpens", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g, status := NewGate(t.Context()), 0
			go func() { status = ask(t.Context(), g, "/graphql") }()
			synctest.Wait()
			require.Zero(t, status)

			g.Open(served)
			synctest.Wait()

			require.Equal(t, http.StatusTeapot, status)
		})
	})

	t.Run("RefusesThemIfItStaysShut", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()

			require.Equal(t, http.StatusServiceUnavailable, ask(t.Context(), NewGate(t.Context()), "/graphql"))
			require.Equal(t, gateWait, time.Since(began))
		})
	})

	t.Run("AnswersHealthAtOnce", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()

			require.Equal(t, http.StatusOK, ask(t.Context(), NewGate(t.Context()), "/healthz"))
			require.Equal(t, http.StatusServiceUnavailable, ask(t.Context(), NewGate(t.Context()), "/readyz"))
			require.Zero(t, time.Since(began))
		})
	})

	t.Run("LetsACallerGo", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()

			require.Equal(t, http.StatusServiceUnavailable, ask(ctx, NewGate(t.Context()), "/graphql"))
			require.Zero(t, time.Since(began))
		})
	})

	t.Run("IsNotReadyOnceTheProcessWasAskedToStop", func(t *testing.T) {
		t.Parallel()
		asked, stop := context.WithCancel(t.Context())
		g := NewGate(asked)
		g.Open(served)
		require.Equal(t, http.StatusTeapot, ask(t.Context(), g, "/readyz"))

		stop()

		require.Equal(t, http.StatusServiceUnavailable, ask(t.Context(), g, "/readyz"))
		require.Equal(t, http.StatusTeapot, ask(t.Context(), g, "/graphql"))
	})
}

func TestGate_StopsLater(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		open bool
		wait time.Duration
	}{"AfterTheDelay": {true, 3 * time.Second}, "AtOnceIfItServesNobody": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked, end := context.WithCancel(t.Context())
				g := NewGate(asked)
				if c.open {
					g.Open(http.NotFoundHandler())
				}
				late, stop := g.Later(3 * time.Second)
				defer stop()
				began := time.Now()
				end()

				<-late.Done()

				require.Equal(t, c.wait, time.Since(began))
			})
		})
	}
}

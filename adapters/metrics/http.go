package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Route is a class of requests, for the label route.
type Route string

const (
	RouteGraphQL Route = "graphql"
	RouteREST    Route = "rest"
	RouteVideos  Route = "videos"
	RouteObjects Route = "objects"
	RouteConsole Route = "console"
	// RouteHooks has the webhooks of hosted providers.
	RouteHooks Route = "hooks"
	// RouteStream has the requests that last for as long as their reader likes: server-sent
	// events. Their durations say nothing about the server.
	RouteStream Route = "stream"
)

var requestBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

func newRequests() *prometheus.HistogramVec {
	return histogram("reelay_http_request_duration_seconds",
		"How long requests took, by class of route and status code. Lease calls of workers wait for up to 25 s by design.", requestBuckets,
		"route", "code")
}

// Timed measures the requests that next handles. route names the class of each.
func (m *Metrics) Timed(route func(*http.Request) Route, next http.Handler) http.Handler {
	timed := map[Route]http.Handler{}
	for _, r := range []Route{RouteGraphQL, RouteREST, RouteVideos, RouteObjects, RouteConsole, RouteHooks, RouteStream} {
		timed[r] = promhttp.InstrumentHandlerDuration(m.requests.MustCurryWith(prometheus.Labels{"route": string(r)}), next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := timed[route(r)]; handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r) // probes and scrapes
	})
}

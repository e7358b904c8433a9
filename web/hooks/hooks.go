// Package hooks takes the webhooks of hosted providers over HTTP.
package hooks

import (
	"net/http"

	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/web/door"
)

// Pattern is that of the requests for Handler.
const Pattern = "POST " + hosted.WebhookPath + "{token}"

// Handler takes webhooks. It reads no body, since it believes none. A webhook that comes too late is accepted
// nevertheless, or its provider would send it again for hours.
func Handler(webhooks *hosted.Webhooks) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := webhooks.Take(r.Context(), r.PathValue("token"))
		switch {
		case err != nil:
			shown := r.Clone(r.Context())
			shown.URL.Path = hosted.WebhookPath // the token is a secret, and the path is logged
			door.PlainError(w, shown, err)
		case result == hosted.WebhookUnknown:
			http.Error(w, "There is no job with this address.", http.StatusNotFound)
		default:
			httpguard.ConnOf(r.Context()).MarkKnown()
			w.WriteHeader(http.StatusAccepted)
		}
	})
}

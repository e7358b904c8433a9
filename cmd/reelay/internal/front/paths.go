package front

import (
	"net/http"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
)

// limitsOf returns the limits that depend on the request: a request of the Videos API may
// contain an image, one of the Comfy API a file, and objects are large. The APIs for programs refuse needless bodies in their
// own format.
func limitsOf(r *http.Request) httpguard.Limits {
	switch {
	case strings.HasPrefix(r.URL.Path, "/objects/"):
		return httpguard.Limits{Stall: 30 * time.Second, Write: 30 * time.Second}
	case strings.HasPrefix(r.URL.Path, "/v1/videos"), OfComfy(r.URL.Path):
		return httpguard.Limits{Body: 2 * time.Minute, Bodies: true}
	case strings.HasPrefix(r.URL.Path, "/v1/"), strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Path != "/api/docs":
		return httpguard.Limits{Bodies: true}
	}
	return httpguard.Limits{}
}

// OfComfy reports whether a path is one of the Comfy API.
func OfComfy(path string) bool {
	return strings.HasPrefix(path, "/api/v2/") || strings.HasPrefix(path, "/comfy/")
}

// IsStream reports whether the answer to a request has no end, or is held for long
// (?wait in REST). GraphQL has no streams for GET. WebSockets are closed by their handler.
func IsStream(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Query().Has("wait") {
		return true
	}
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") && (r.Method == http.MethodPost || r.URL.Path != "/graphql")
}

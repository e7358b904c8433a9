package system

import (
	"bytes"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/shell"
)

// Monitor returns asynqmon for Config. Close closes its connections.
func Monitor(redis asynq.RedisConnOpt) *asynqmon.HTTPHandler {
	return asynqmon.New(asynqmon.Options{RootPath: "/asynqmon", RedisConnOpt: redis})
}

// monitorPolicy allows the inline scripts and styles of asynqmon.
const monitorPolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; manifest-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// monitor passes a request to asynqmon. Requests that can change something are first
// written to the audit log.
func (c *controller) monitor(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if c.Monitor == nil {
		return shell.ErrNoPage
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := c.Operator.Monitor(r.Context(), p, r.Method, r.URL.EscapedPath()); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Security-Policy", monitorPolicy)
	if !isMonitorPage(r) {
		c.Monitor.ServeHTTP(w, r)
		return nil
	}
	page := &bufferedPage{ResponseWriter: w}
	c.Monitor.ServeHTTP(page, r)
	return page.send(r)
}

// isMonitorPage reports whether asynqmon responds with its page, as it does wherever it
// has no file.
func isMonitorPage(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/asynqmon/api/") && path.Ext(r.URL.Path) == ""
}

// bufferedPage keeps asynqmon's page until it is complete.
type bufferedPage struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (p *bufferedPage) WriteHeader(status int)      { p.status = status }
func (p *bufferedPage) Write(b []byte) (int, error) { return p.body.Write(b) }

// refusedLinks match what asynqmon's page cannot load: Google's fonts, which the policy
// forbids, and its manifest, for which browsers send no cookie.
var refusedLinks = regexp.MustCompile(`<link rel="(manifest"|stylesheet" href="https://fonts\.googleapis\.com/)[^>]*>`)

// send sends the page with a link back to the console.
func (p *bufferedPage) send(r *http.Request) error {
	var note bytes.Buffer
	if err := monitorNote().Render(r.Context(), &note); err != nil {
		return err
	}
	html := refusedLinks.ReplaceAllLiteral(p.body.Bytes(), nil)
	html = bytes.Replace(html, []byte("<body>"), append([]byte("<body>"), note.Bytes()...), 1)
	if p.status != 0 {
		p.ResponseWriter.WriteHeader(p.status)
	}
	_, _ = p.ResponseWriter.Write(html)
	return nil
}

package web

import (
	"net/http"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/reelay/reelay/jobs"
)

// Monitor makes asynqmon, as the console mounts it. Close ends its connections.
func Monitor(redis asynq.RedisConnOpt) *asynqmon.HTTPHandler {
	return asynqmon.New(asynqmon.Options{RootPath: "/asynqmon", RedisConnOpt: redis})
}

// monitorPolicy is what asynqmon needs: its page has inline scripts and styles.
// It also asks for fonts from Google, which are not let through.
const monitorPolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; manifest-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// monitor leads to asynqmon. What is done there, as anything but reading may be, is
// written down before.
func (c *console) monitor(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if c.Monitor == nil {
		return errNoPage
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := c.Operator.Monitor(r.Context(), p, r.Method, r.URL.EscapedPath()); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Security-Policy", monitorPolicy)
	c.Monitor.ServeHTTP(w, r)
	return nil
}

package system

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// processAway is how long a process may be silent before it counts as gone: it writes every
// 2 seconds.
const processAway = 15 * time.Second

// systemView is the view of what Reelay runs on.
type systemView struct {
	*query.System
	// Redis is nil if it does not answer.
	Redis *Redis
	// Region is nil if there is only one region, and if it is not known how they stand; then RegionProblem is why.
	Region        *region.Report
	RegionProblem string
	Now           time.Time
}

// Redis is what the system page shows of Redis. Nil is unknown.
type Redis struct {
	Version string
	// Kind says in words how it is run.
	Kind string
	// Ping is how long it took to answer.
	Ping               time.Duration
	UsedBytes, Clients *int64
	// Replicas follow it, and BehindBytes is how much the slowest has not read yet.
	Replicas, BehindBytes *int64
}

func (c *controller) system(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	part, err := c.systemPart(r.Context(), p)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, systemPage(part(time.Now())))
}

func (c *controller) systemLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.Refresh(w, r, p, "system", c.systemPart)
}

func (c *controller) systemPart(ctx context.Context, _ jobs.Principal) (func(time.Time) templ.Component, error) {
	v := systemView{}
	var err error
	if v.System, err = c.Reads.History.System(ctx); err != nil {
		return nil, err
	}
	if c.Redis != nil {
		v.Redis = c.Redis(ctx)
	}
	if c.Region != nil {
		if v.Region, err = c.Region(ctx); err != nil {
			slog.WarnContext(ctx, "it is not known how the regions stand", "error", err)
			v.RegionProblem = "PostgreSQL does not say how the regions stand."
		}
	}
	return func(now time.Time) templ.Component {
		shown := v
		shown.Now = now
		return systemPanels(&shown)
	}, nil
}

// processName names a process. Those of control share one record.
func processName(p *models.Process) string {
	if p.ID == uuid.Nil {
		return string(p.Kind)
	}
	return string(p.Kind) + " " + p.ID.String()[:8]
}

// processState is a state as ui.Badge shows it.
func (v *systemView) processState(p *models.Process) string {
	if time.Since(p.SeenAt) > processAway {
		return "SILENT"
	}
	return "ACTIVE"
}

// disagree reports whether workers run agents of another version than this process.
func (v *systemView) disagree() bool {
	for _, a := range v.Agents {
		if a.Version != version.Number && a.Version != version.Current().String() {
			return true
		}
	}
	return false
}

// mixed reports whether processes run different versions.
func (v *systemView) mixed() bool {
	seen := ""
	for _, p := range v.Processes {
		if p.Version == "" || v.processState(p) != "ACTIVE" {
			continue
		}
		if seen != "" && p.Version != seen {
			return true
		}
		seen = p.Version
	}
	return false
}

// bytesOf and countOf format numbers that may be unknown.
func bytesOf(n *int64) string {
	if n == nil {
		return ui.Unknown
	}
	return ui.Bytes(*n)
}

func countOf(n *int64) string {
	if n == nil {
		return ui.Unknown
	}
	return ui.Count(int(*n), 0)
}

// lag formats a delay in seconds. nil is unknown.
func lag(seconds *float64) string {
	if seconds == nil {
		return ui.Unknown
	}
	return ui.Duration(time.Duration(*seconds * float64(time.Second)))
}

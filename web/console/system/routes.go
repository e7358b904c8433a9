// Package system has the pages of Reelay itself: processes, halts, the doctor and asynqmon.
package system

import (
	"context"
	"net/http"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads    *query.Reads
	Operator *operate.QueueOperator
	// Monitor is asynqmon, as the function Monitor returns it; nil for none.
	Monitor http.Handler
	// Examine runs the checks of the doctor, and calls progress before each; nil if they cannot be
	// run from the console.
	Examine func(ctx context.Context, progress func(done, of int, next string)) ([]doctor.Finding, error)
	// Redis describes Redis, or returns nil if it does not answer; it is nil if that is never known.
	Redis func(context.Context) *Redis
	// Region returns how the regions stand, or nil if there is only one; it is nil if that is never known.
	Region func(context.Context) (*region.Report, error)
}

// controller serves the pages.
type controller struct {
	*shell.Shell
	Config
	exams exams
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config}
	return []shell.Route{
		{Pattern: "GET /doctor", Serve: c.doctor},
		{Pattern: "GET /doctor/live", Serve: c.doctorLive},
		{Pattern: "POST /doctor", Serve: c.doctorRun, Back: "/doctor"},
		{Pattern: "GET /system", Serve: c.system},
		{Pattern: "GET /system/live", Serve: c.systemLive},
		{Pattern: "GET /system/halt", Serve: c.haltAsk},
		{Pattern: "POST /system/halt", Serve: c.halt, Back: "/system/halt"},
		{Pattern: "POST /system/resume", Serve: c.resume, Back: "/system"},
		{Pattern: "/asynqmon", Serve: c.monitor},
		{Pattern: "/asynqmon/", Serve: c.monitor},
	}
}

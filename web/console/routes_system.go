package console

import (
	"context"
	"net/http"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/operate"
)

// systemConfig is what the pages of the system: halts, doctor and asynqmon read and call.
type systemConfig struct {
	Reader   *query.Reader
	Operator *operate.Operator
	// Monitor is asynqmon, as the function Monitor returns it; nil for none.
	Monitor http.Handler
	// Examine runs the checks of the doctor, and calls progress before each; nil if they cannot be
	// run from the console.
	Examine func(ctx context.Context, progress func(done, of int, next string)) ([]doctor.Finding, error)
	// Redis describes Redis, or returns nil if it does not answer; it is nil if that is never known.
	Redis func(context.Context) *Redis
}

// systemController serves the pages of the system: halts, doctor and asynqmon.
type systemController struct {
	*console
	systemConfig
	exams exams
}

// systemRoutes lists the pages of the system: halts, doctor and asynqmon.
func systemRoutes(pages *console, config systemConfig) []route {
	c := &systemController{console: pages, systemConfig: config}
	return []route{
		{pattern: "GET /doctor", serve: c.doctor},
		{pattern: "GET /doctor/live", serve: c.doctorLive},
		{pattern: "POST /doctor", serve: c.doctorRun, back: "/doctor"},
		{pattern: "GET /system", serve: c.system},
		{pattern: "GET /system/live", serve: c.systemLive},
		{pattern: "GET /system/halt", serve: c.haltAsk},
		{pattern: "POST /system/halt", serve: c.halt, back: "/system/halt"},
		{pattern: "POST /system/resume", serve: c.resume, back: "/system"},
		{pattern: "/asynqmon", serve: c.monitor},
		{pattern: "/asynqmon/", serve: c.monitor},
	}
}

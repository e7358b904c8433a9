package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
)

// List returns the caller's schedules, or all for operators and viewers, by name; or only those
// of one name.
func (v *Schedules) List(ctx context.Context, p jobs.Principal, name string, of paging.Request) (*paging.Page[*schedules.Schedule], error) {
	if !text.Valid(name, 0, MaxName) {
		return nil, apierror.Invalid("name", "name can have up to %d printable characters.", MaxName)
	}
	all := paging.ListOf("sch", p.Scope(), name)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	afterName := ""
	if mark != "" {
		last, err := schedules.GetSchedule(ctx, v.DB, models.ScheduleID(mark))
		if err != nil {
			return nil, apierror.Wrap(apierror.OrNotFound(err, "schedule"), "read the place in the list")
		}
		afterName = last.Name
	}
	found, err := schedules.ListSchedules(ctx, v.DB, p.Scope(), name, afterName, models.ScheduleID(mark), of.First+1)
	if err != nil {
		return nil, apierror.Wrap(err, "list schedules")
	}
	return paging.NewPage(all, found, of.First, func(s *schedules.Schedule) string { return string(s.ID) }), nil
}

// MaxSlots is how many of its newest slots a schedule shows at once.
const MaxSlots = 200

// Recent returns up to n of the newest slots of a schedule that the caller was shown, 1 to
// MaxSlots, the newest first.
func (v *Schedules) Recent(ctx context.Context, s *schedules.Schedule, n int) ([]*schedules.Slot, error) {
	if n < 1 || n > MaxSlots {
		return nil, apierror.Invalid("first", "first must be from 1 to %d; it is %d.", MaxSlots, n)
	}
	slots, err := schedules.ListSlots(ctx, v.DB, s.ID, time.Time{}, n)
	return slots, apierror.Wrap(err, "list the slots of schedule %s", s.ID)
}

// Upcoming returns the next n slots of a schedule, 1 to MaxUpcoming; none while it is paused.
func (v *Schedules) Upcoming(ctx context.Context, s *schedules.Schedule, n int) ([]time.Time, error) {
	if n < 1 || n > MaxUpcoming {
		return nil, apierror.Invalid("n", "n must be from 1 to %d; it is %d.", MaxUpcoming, n)
	}
	if s.Paused() {
		return []time.Time{}, nil
	}
	times, err := Times(s)
	if err != nil {
		return nil, err
	}
	return times.Upcoming(s.DecidedUntil, n), nil
}

// Describe says in words when a schedule fires, such as "every weekday at 09:00, Europe/Berlin".
func Describe(s *schedules.Schedule) string {
	times, err := Times(s)
	if err != nil { // this release does not know the zone, or the expression
		return fmt.Sprintf("%s, %s, which cannot be read", s.Cron, s.Timezone)
	}
	return times.Describe()
}

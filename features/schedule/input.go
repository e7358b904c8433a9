package schedule

import (
	"cmp"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/cron"
	"github.com/reelay/reelay/models/schedules"
)

// Input is a schedule as a client describes it. Nil and empty values mean the default.
type Input struct {
	// Name is unique in an account, 1 to 100 characters.
	Name string
	// DefaultName lets Create choose a name, if none is given.
	DefaultName bool
	// Cron is an expression of five or six fields, or a macro. Either it or EverySeconds, at
	// least 1, is set.
	Cron         string
	EverySeconds int
	// Timezone is a name of the IANA database, UTC by default.
	Timezone   string
	DSTGap     schedules.DSTGap
	DSTOverlap schedules.DSTOverlap
	// JitterSeconds delays each slot by 0 to so many seconds, each slot always by the same.
	JitterSeconds int
	// Slots lie from StartAt until before EndAt. Both are within ten years of now.
	StartAt, EndAt *time.Time
	CatchUp        schedules.CatchUp
	// CatchUpWindowSeconds is how late a slot may fire; a day by default.
	CatchUpWindowSeconds *int
	Overlap              schedules.RunOverlap
	// IdempotencyKey makes a repeated Create return the schedule of the first.
	IdempotencyKey *string
	// Request is what each slot submits.
	Request
}

const (
	// MaxName is in characters, MaxEvery in seconds.
	MaxName      = 100
	MaxEvery     = 366 * 24 * 60 * 60
	maxJitter    = 60 * 60
	maxWindow    = 31 * 24 * 60 * 60
	maxYears     = 10
	dayInSeconds = 24 * 60 * 60
)

// checkFor validates the caller and all but what it submits. unnamed means that it may have no name.
func (in *Input) checkFor(p jobs.Principal, unnamed bool) error {
	if err := p.RequireChange(); err != nil {
		return err
	}
	if !unnamed || in.Name != "" || !in.DefaultName {
		return in.checkTimes()
	}
	in.Name = "default" // it is chosen when it is made
	defer func() { in.Name = "" }()
	return in.checkTimes()
}

// checkTimes validates all but what it submits, and fills in the defaults.
func (in *Input) checkTimes() error {
	in.Timezone = cmp.Or(in.Timezone, "UTC")
	in.DSTGap, in.DSTOverlap = cmp.Or(in.DSTGap, schedules.DSTGapShift), cmp.Or(in.DSTOverlap, schedules.DSTOverlapFirst)
	in.CatchUp, in.Overlap = cmp.Or(in.CatchUp, schedules.CatchUpCoalesce), cmp.Or(in.Overlap, schedules.RunOverlapAllow)
	if in.CatchUpWindowSeconds == nil {
		in.CatchUpWindowSeconds = new(dayInSeconds)
	}
	if err := in.checkNumbers(); err != nil {
		return err
	}
	if in.Cron != "" {
		if _, err := cron.Parse(in.Cron); err != nil {
			return apierror.Invalid("cron", "The cron expression is not valid: %s.", err)
		}
	}
	return cron.CheckZone("timezone", in.Timezone)
}

// checkRange refuses a start and an end that are far from now.
func (in *Input) checkRange(now time.Time) error {
	for field, at := range map[string]*time.Time{"startAt": in.StartAt, "endAt": in.EndAt} {
		if at != nil && (at.Before(now.AddDate(-maxYears, 0, 0)) || at.After(now.AddDate(maxYears, 0, 0))) {
			return apierror.Invalid(field, "%s must be within %d years of now; it is %s. Leave it out if the schedule needs none.", field, maxYears,
				text.Moment(at.UTC(), now))
		}
	}
	return nil
}

func (in *Input) checkNumbers() error {
	switch {
	case !text.Valid(in.Name, 1, MaxName) || strings.TrimSpace(in.Name) != in.Name:
		return apierror.Invalid("name", "The name must have 1 to %d printable characters, without spaces around them.", MaxName)
	case (in.Cron == "") == (in.EverySeconds == 0):
		return apierror.Invalid("cron", "Give either a cron expression or an interval, and not both: it says when the schedule fires.")
	case in.EverySeconds < 0 || in.EverySeconds > MaxEvery:
		return apierror.Invalid("everySeconds", "everySeconds must be from 1 to %d; it is %d.", MaxEvery, in.EverySeconds)
	case in.JitterSeconds < 0 || in.JitterSeconds > maxJitter:
		return apierror.Invalid("jitterSeconds", "jitterSeconds must be from 0 to %d; it is %d.", maxJitter, in.JitterSeconds)
	case *in.CatchUpWindowSeconds < 0 || *in.CatchUpWindowSeconds > maxWindow:
		return apierror.Invalid("catchUpWindowSeconds", "catchUpWindowSeconds must be from 0 to %d; it is %d.", maxWindow,
			*in.CatchUpWindowSeconds)
	case in.StartAt != nil && in.EndAt != nil && !in.EndAt.After(*in.StartAt):
		return apierror.Invalid("endAt", "endAt must be after the start.")
	}
	return nil
}

// Times returns when a stored schedule fires.
func Times(s *schedules.Schedule) (cron.Times, error) {
	zone, err := time.LoadLocation(s.Timezone)
	if err != nil {
		return cron.Times{}, err
	}
	t := cron.Times{
		Zone: zone, Gap: s.DSTGap, Overlap: s.DSTOverlap,
		Every: time.Duration(s.EverySeconds) * time.Second, Anchor: cmp.Or(s.StartAt, s.CreatedAt.Truncate(time.Second)), Start: s.StartAt,
		End: s.EndAt,
	}
	if s.Cron != "" {
		t.Expression, err = cron.Parse(s.Cron)
	}
	return t, err
}

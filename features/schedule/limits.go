package schedule

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/uptrace/bun"
)

const (
	// leastPerMinute is how many slots a minute every account may have.
	leastPerMinute = 60
	// slotsPerSubmit is how many slots an account may have for each submit of its rate. More slots than
	// submits make sense: a rule for overlaps leaves most of them out.
	slotsPerSubmit = 10
	// leastWaiting is how many slots of every account may wait: a whole backfill.
	leastWaiting = MaxBackfill
	// limitedFor is after how long a schedule is looked at again if too many slots of its account wait.
	limitedFor = 5 * time.Second
)

// Limits bound the slots of an account. They follow from its rate of submits. Zero means no limit.
type Limits struct {
	// PerMinute is how many slots a minute its schedules may have, on average over the busiest hour of
	// each.
	PerMinute int
	// Waiting is how many of its slots may wait to be submitted.
	Waiting int
}

// LimitsOf returns the limits of an account that may submit so many jobs a minute.
func LimitsOf(submitsPerMinute int) Limits {
	if submitsPerMinute >= jobs.Unlimited {
		return Limits{}
	}
	perMinute := max(leastPerMinute, slotsPerSubmit*submitsPerMinute)
	return Limits{PerMinute: perMinute, Waiting: max(leastWaiting, 2*perMinute)}
}

// room returns how many more slots of an account may wait.
func (l Limits) room(use *schedules.SlotUse) int {
	if l.Waiting == 0 {
		return slotsAtOnce
	}
	return l.Waiting - use.Waiting
}

// Usage is how many slots an account has, and may have.
type Usage struct {
	Limits Limits
	// AnHour is the sum of the slots of its schedules, each in its busiest hour.
	AnHour int
	// Waits is how many of its slots wait to be submitted.
	Waits int
}

// PerMinute is how many slots a minute its schedules have, on average over the busiest hour of each.
func (u *Usage) PerMinute() float64 { return float64(u.AnHour) / 60 }

// MaxPerMinute is how many slots a minute they may have, or nil without a limit.
func (u *Usage) MaxPerMinute() *int { return limited(u.Limits.PerMinute) }

// MaxWaiting is how many of its slots may wait, or nil without a limit.
func (u *Usage) MaxWaiting() *int { return limited(u.Limits.Waiting) }

func limited(limit int) *int {
	if limit == 0 {
		return nil
	}
	return &limit
}

// Usages returns how many slots accounts have, and may have. The caller was shown these accounts.
func (v *Schedules) Usages(ctx context.Context, accounts []models.AccountID) (map[models.AccountID]*Usage, error) {
	use, err := schedules.ReadSlotUse(ctx, v.DB, accounts)
	if err != nil {
		return nil, apierror.Wrap(err, "count the slots that wait")
	}
	sums, err := schedules.SumSlotsOf(ctx, v.DB, accounts)
	if err != nil {
		return nil, apierror.Wrap(err, "count the slots an hour")
	}
	all := map[models.AccountID]*Usage{}
	for id, u := range use {
		all[id] = &Usage{Limits: LimitsOf(u.SubmitsPerMinute), AnHour: sums[id], Waits: u.Waiting}
	}
	return all, nil
}

// lockSlots lets one transaction at a time add to the slots of an account.
func lockSlots(ctx context.Context, tx bun.Tx, account models.AccountID) error {
	h := fnv.New64a()
	h.Write([]byte("schedules/" + account))
	return postgres.Lock(ctx, tx, int64(binary.BigEndian.Uint64(h.Sum(nil)))) //nolint:gosec // any number will do
}

// checkRate returns QUOTA_EXCEEDED if an account would have too many slots a minute with a schedule.
// Until the transaction ends, no other one adds slots to the account.
func checkRate(ctx context.Context, tx bun.Tx, s *schedules.Schedule) error {
	if err := lockSlots(ctx, tx, s.AccountID); err != nil {
		return err
	}
	use, err := schedules.ReadSlotUse(ctx, tx, []models.AccountID{s.AccountID})
	if err != nil || use[s.AccountID] == nil {
		return err
	}
	most := 60 * LimitsOf(use[s.AccountID].SubmitsPerMinute).PerMinute
	if most == 0 {
		return nil
	}
	others, err := schedules.SumSlotsAnHour(ctx, tx, s.AccountID, s.ID)
	if err != nil || others+s.SlotsAnHour <= most {
		return err
	}
	field := "everySeconds"
	if s.Cron != "" {
		field = "cron"
	}
	return apierror.New(apierror.CodeQuotaExceeded,
		"This schedule has up to %s an hour, and the other schedules of this account %d. The limit of the account is %d an hour, which is %d a minute. "+
			"Let it fire less often, or pause or delete others. An operator can raise the limit with the account's submits per minute.",
		text.Count(s.SlotsAnHour, "slot"), others, most, most/60).In(field)
}

// checkWaiting returns QUOTA_EXCEEDED if too many slots of an account wait, so many of which were
// inserted just now.
func checkWaiting(ctx context.Context, tx bun.Tx, account models.AccountID, inserted int) error {
	use, err := schedules.ReadSlotUse(ctx, tx, []models.AccountID{account})
	if err != nil || use[account] == nil {
		return err
	}
	most := LimitsOf(use[account].SubmitsPerMinute).Waiting
	if most == 0 || inserted == 0 || use[account].Waiting <= most {
		return nil
	}
	return apierror.New(apierror.CodeQuotaExceeded,
		"This would fire %s, but %d others of this account already wait; the limit is %d together. Nothing was fired. "+
			"Choose a shorter time, or try again when fewer wait.", text.Count(inserted, "slot"), use[account].Waiting-inserted, most).In("maxFires")
}

// takeSlots takes so many slots by hand from the rate of an account, or returns RATE_LIMITED. A slot
// that is refused has a row, too, so that calls alone could fill the table.
func (v *Schedules) takeSlots(ctx context.Context, account models.AccountID, n int) error {
	if v.Submitter.Admission.Rates == nil || n == 0 {
		return nil
	}
	use, err := schedules.ReadSlotUse(ctx, v.DB, []models.AccountID{account})
	if err != nil || use[account] == nil {
		return apierror.Wrap(err, "read the account")
	}
	most := LimitsOf(use[account].SubmitsPerMinute).Waiting
	if most == 0 {
		return nil
	}
	name, keys := "slots/"+string(account), make([]string, min(n, most))
	tokens, wait := v.Submitter.Admission.Rates.Take(ctx, name, keys, most)
	taken := 0
	for _, token := range tokens {
		if token == submit.TokenTaken {
			taken++
		}
	}
	if taken == len(keys) {
		return nil
	}
	v.Submitter.Admission.Rates.Give(ctx, name, keys[:taken], most)
	return apierror.Later(apierror.CodeRateLimited, wait,
		"This account has reached its limit of %d slots fired by hand per minute. Nothing was fired.", most)
}

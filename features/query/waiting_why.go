package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/samber/lo"
)

// why lists the reasons why a job waits.
func (s *situation) why(job *models.Job) []WaitingReason {
	reasons := s.whyNotQueued(job)
	if hold := s.holds.Of(job); hold != nil && job.Status == models.JobQueued {
		reasons = append(reasons, whyBudget(hold, s.now))
		reasons = append(reasons, s.whyStopped(job)...)
	} else if job.Status == models.JobQueued && !job.Needs.IsHeld() { // else it is let go within a second
		reasons = append(reasons, s.whyStopped(job)...)
		if reason := whyNoSlot(s.catalogue, s.providers, job.Model); reason != nil {
			reasons = append(reasons, *reason)
		}
		reasons = append(reasons, s.whyNoCapacity(job)...)
		reasons = append(reasons, s.whyAhead(job)...)
	}
	slices.SortFunc(reasons, func(a, b WaitingReason) int {
		return slices.Index(waitingCodes, a.Code) - slices.Index(waitingCodes, b.Code)
	})
	if len(reasons) == 0 {
		return nil
	}
	first := &reasons[0]
	if to := s.gaveWay[job.ID]; to != "" {
		gave := "Preempted by " + text.A(string(to)) + " job. "
		if first.Message = gave + first.Message; first.Stop != nil {
			first.Stop.What = gave + first.Stop.What
		}
	}
	held := max(0, slices.IndexFunc(reasons, func(r WaitingReason) bool { return slices.Contains(endless, r.Code) }))
	reasons[held].Consequence += s.bounds(job, reasons[held].Code)
	return reasons
}

// bounds says, in sentences after others, what the wait costs a job that expires or has a deadline.
// code is the reason after which they stand.
func (s *situation) bounds(job *models.Job, code WaitingCode) (all string) {
	at := func(t time.Time) string { return text.MomentToSecond(t.UTC(), s.now) }
	if job.ExpiresAt.After(s.now) && job.StartedAt.IsZero() {
		all += " It fails if no worker has started it by " + at(job.ExpiresAt) + ", its expiresAt."
	}
	d := s.deadlines[job.ID]
	switch known := d != nil && d.Feasible != nil; {
	case job.FinishBy.IsZero(), known && *d.Feasible:
	case !job.FinishBy.After(s.now):
		all += " It is late: its finishBy was " + at(job.FinishBy) + "."
	case known && !d.EarliestFinish.IsZero():
		all += fmt.Sprintf(" Its finishBy, %s, cannot be met: it is expected to be complete at %s at the earliest.", at(d.FinishBy),
			at(d.EarliestFinish))
	case known:
		all += " Its finishBy, " + at(job.FinishBy) + ", cannot be met."
	case slices.Contains(endless, code):
		all += " Its finishBy, " + at(job.FinishBy) + ", cannot be met unless that changes."
	}
	return all
}

// endless are the reasons that do not end by themselves in a known time.
var endless = []WaitingCode{WaitHalted, WaitQueuePaused, WaitNoPool, WaitPoolPaused, WaitNotBooting, WaitPrice}

// whyNotQueued returns what a job waits for before it is queued.
func (s *situation) whyNotQueued(job *models.Job) (reasons []WaitingReason) {
	if b, blocked := s.blocking[job.ID]; blocked && job.Status == models.JobBlocked {
		reasons = append(reasons, WaitingReason{Code: WaitDependency,
			Message: fmt.Sprintf("%s must complete first: %s%s.", text.Count(b.Count, "job"), strings.Join(b.Jobs, ", "),
				more(b.Count-len(b.Jobs))),
			Consequence: "It is not queued before that.",
			Change:      "If one of them fails for good, this job fails, too, unless its policy for that job is CONTINUE.",
		})
	}
	if fetch, waits := s.fetches[job.ID]; waits && job.Status == models.JobBlocked {
		message, change := "An image of the params is being fetched", "Nothing needs to be done."
		if fetch.Problem != "" {
			message += fmt.Sprintf("; attempt %d of %d failed: %s", min(fetch.Tries, inputs.MaxFetchTries), inputs.MaxFetchTries, fetch.Problem)
			change = "If no attempt brings it, the job fails: submit it again with an address that answers."
		}
		reasons = append(reasons, WaitingReason{Code: WaitInput, Message: message + ".",
			Consequence: "It is not queued before the image is stored.", Change: change})
	}
	if asked := s.approvals[job.ID]; asked != nil && asked.Run == job.Run && job.Status == models.JobBlocked {
		reasons = append(reasons, whyApproval(asked, s.now))
	}
	if job.SubmitUnknown() {
		return append(reasons, whySubmitUnknown(job, s.now))
	}
	if !job.RunAt.After(s.now) {
		return reasons
	}
	due := WaitingReason{Code: WaitNotBefore, Until: job.RunAt, Message: "Due at " + text.MomentToSecond(job.RunAt.UTC(), s.now) + ".",
		Consequence: "It is not queued before that.", Change: "Cancel it, and submit it again without runAt, to start it sooner."}
	if job.Failures > 0 && job.Status == models.JobScheduled {
		due.Message = fmt.Sprintf("Attempt %d of %d starts in %s, at %s. Last failure: %s", job.Failures+1, job.MaxAttempts,
			whole(job.RunAt.Sub(s.now)), text.MomentToSecond(job.RunAt.UTC(), s.now), job.FailureReason)
		due.Change = "Nothing needs to be done; cancel it if what failed will fail again."
	}
	return append(reasons, due)
}

// whyApproval says that a job waits for an answer.
func whyApproval(asked *models.Approval, now time.Time) WaitingReason {
	after := map[models.OnTimeout]string{
		models.TimeoutApprove: "its candidate is approved", models.TimeoutFirst: "the first complete candidate is picked",
	}
	return WaitingReason{Code: WaitApproval, Until: asked.ExpiresAt,
		Message:     "Waits for an answer until " + text.MomentToSecond(asked.ExpiresAt.UTC(), now) + ".",
		Consequence: "Then " + lo.CoalesceOrEmpty(after[asked.OnTimeout], "it is rejected") + ".",
		Change:      "Approve or reject it: on the page of its workflow, by its link, or with the API."}
}

// whyBudget says that a budget is spent.
func whyBudget(hold *budgets.Hold, now time.Time) WaitingReason {
	why := jobs.BudgetSpent(hold)
	return WaitingReason{Code: WaitBudget, Until: hold.Until, Message: strings.ToUpper(why[:1]) + why[1:] + ".",
		Consequence: "No job under it starts before " + text.MomentToSecond(hold.Until.UTC(), now) + ", when it begins anew. Running jobs finish.",
		Change:      "An operator raises the budget: reelay budgets set."}
}

// whyStopped returns what keeps a queued job from starting whatever workers there are.
func (s *situation) whyStopped(job *models.Job) (reasons []WaitingReason) {
	if halt, halted := s.halted(); halted {
		reasons = append(reasons, WaitingReason{Code: WaitHalted,
			Message: fmt.Sprintf("An operator has halted the starts of all jobs since %s: %s.", text.Moment(halt.Since.UTC(), s.now),
				strings.TrimSuffix(halt.Reason, ".")),
			Consequence: "No job starts. Running jobs continue, and this one keeps its place.", Change: "An operator resumes the starts.",
			Stop: &Stop{What: "The starts of all jobs are halted", By: halt.By, At: halt.Since, Reason: halt.Reason}})
	}
	if pause := s.pauseOf(job); pause != nil {
		queue, of := strings.ToLower(string(job.Lane))+" lane", lo.Ternary(pause.Model == "", "", " for "+job.Model)
		what := "The " + queue + " is paused" + of
		reasons = append(reasons, WaitingReason{Code: WaitQueuePaused, Message: what + ".",
			Consequence: "None of its jobs starts. Running jobs continue, and this one keeps its place.",
			Change:      "An operator resumes the " + queue + of + ".",
			Stop:        &Stop{What: what, Lane: job.Lane, By: pause.By, At: pause.At, Reason: pause.Reason}})
	}
	if s.capped(job) {
		reasons = append(reasons, WaitingReason{Code: WaitAccountRunningCap,
			Message:     fmt.Sprintf("The account is at its limit of %d running jobs.", s.accounts[job.AccountID].MaxRunning),
			Consequence: "It cannot start before one of these jobs ends. Jobs of other accounts go first.",
			Change:      "An admin raises the account's maxRunning."})
	}
	return reasons
}

// whyAhead returns the jobs that start before a queued one.
func (s *situation) whyAhead(job *models.Job) []WaitingReason {
	n, above := s.ahead[job.ID]+s.above[job.ID], s.above[job.ID]
	if n == 0 {
		return nil
	}
	count := text.Count(n, "job")
	if n > countAhead {
		count = fmt.Sprintf("More than %d jobs", countAhead)
	}
	return []WaitingReason{{Code: WaitQueueAhead, Message: count + " ahead" + whereAhead(strings.ToLower(string(job.Lane)), above) + ".",
		Consequence: "They start first on the workers that can run both.",
		Change:      "A higher priority moves it before other jobs of its account, and a higher tier before lower ones."}}
}

// halted returns the halt of all leases, if there is one.
func (s *situation) halted() (models.Halt, bool) {
	return lo.Find(s.halts, func(h models.Halt) bool { return h.What == models.HaltLeases })
}

// pauseOf returns the pause of the job's queue, or nil. That of the whole lane goes first.
func (s *situation) pauseOf(job *models.Job) *models.Pause {
	for i, pause := range s.pauses {
		if pause.Lane == job.Lane && (pause.Model == "" || pause.Model == job.Model) {
			return &s.pauses[i]
		}
	}
	return nil
}

func whereAhead(lane string, above int) string {
	if above == 0 {
		return fmt.Sprintf(" in the %s lane", lane)
	}
	return fmt.Sprintf(" in the %s lane and the lanes above it", lane)
}

// Package attention ranks what an operator should look at: causes, the most urgent first, each with
// the alerts that follow from it.
package attention

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/webhooks"
)

// Kind is what a cause is.
type Kind string

// The kinds, the most urgent first. Alerts that follow from no other cause come last.
const (
	KindHalt          Kind = "HALT"
	KindBoot          Kind = "WORKERS_DO_NOT_BOOT"
	KindWorker        Kind = "FAILING_WORKER"
	KindProvider      Kind = "PROVIDER"
	KindNoWorkers     Kind = "NO_WORKERS"
	KindFailures      Kind = "FAILING_JOBS"
	KindPause         Kind = "PAUSED_QUEUE"
	KindFlood         Kind = "FLOODING_ACCOUNT"
	KindEndpoint      Kind = "FAILING_ENDPOINT"
	KindPoolPause     Kind = "PAUSED_POOL"
	KindPoolAtMaximum Kind = "POOL_AT_MAXIMUM"
	KindAlert         Kind = "ALERT"
)

// Kinds lists the kinds in the order in which causes are ranked.
var Kinds = []Kind{
	KindHalt, KindBoot, KindWorker, KindProvider, KindNoWorkers, KindFailures, KindPause, KindFlood, KindEndpoint,
	KindPoolPause, KindPoolAtMaximum, KindAlert,
}

// Cause is one thing that an operator should look at.
type Cause struct {
	Kind Kind
	// Urgent causes stop jobs or will; the others may be meant.
	Urgent bool
	Title  string
	// Detail says more in a sentence or less; it may be empty.
	Detail string
	// Path is the page of the console about it.
	Path string
	// Since is when it began; zero if that is not known.
	Since time.Time
	// Alerts follow from it, the most severe first. Those of a cause of the kind ALERT are the
	// alert itself, and others of the same family.
	Alerts []*alerts.Alert
}

// Facts are what causes are made of.
type Facts struct {
	Now       time.Time
	Overview  *query.Overview
	Pools     []*query.PoolStatus
	Failures  []alerts.FailureSource
	Shares    []*backlog.LaneShare
	Endpoints []*webhooks.Endpoint
	Alerts    []*alerts.Alert
}

// leastDeadLetters is how many dead letters of one cause are worth a line of their own.
const leastDeadLetters = 3

// family are alerts that follow from causes of these kinds, the likeliest first.
type family struct {
	rules  []string
	causes []Kind
}

var families = []family{
	{[]string{"completion", "slo-fast-burn", "failures", "slo-slow-burn", "dead-letters", "dead-letters-growing"},
		[]Kind{KindWorker, KindFailures}},
	{[]string{"queue-at-maximum", "drain-time", "throughput", "pickup-time", "queue-depth", "workers-busy"},
		[]Kind{KindHalt, KindBoot, KindProvider, KindNoWorkers, KindFlood, KindPoolAtMaximum, KindPoolPause, KindPause}},
	{[]string{"lease-expirations", "stalled-jobs", "preemptions", "wasted-gpu"}, []Kind{KindWorker}},
	{[]string{"webhook-failures"}, []Kind{KindEndpoint}},
	{[]string{"halted", "start-lag"}, []Kind{KindHalt}},
	{[]string{"render-p99", "render-p95", "render-p50", "gpu-utilization", "checkpoint-time"}, nil},
}

// Rank returns the causes, the most urgent first. An alert is a symptom: it stands below the cause
// that explains it, and alone, with those of its family, only if there is none.
func Rank(f Facts) []Cause {
	causes := slices.Concat(f.halts(), f.workers(), f.pools(), f.noWorkers(), f.failing(), f.pauses(), f.floods(), f.endpoints())
	rest := slices.Clone(f.Alerts)
	for _, of := range families {
		found, others := split(rest, func(a *alerts.Alert) bool { return slices.Contains(of.rules, a.Rule) })
		rest = others
		if len(found) == 0 {
			continue
		}
		slices.SortStableFunc(found, func(a, b *alerts.Alert) int {
			return cmp.Or(strings.Compare(string(a.Severity), string(b.Severity)),
				cmp.Compare(slices.Index(of.rules, a.Rule), slices.Index(of.rules, b.Rule)))
		})
		if at := explains(causes, of.causes); at >= 0 {
			causes[at].Alerts = append(causes[at].Alerts, found...)
		} else {
			causes = append(causes, alertCause(found))
		}
	}
	for _, a := range rest {
		causes = append(causes, alertCause([]*alerts.Alert{a}))
	}
	slices.SortStableFunc(causes, func(a, b Cause) int { return cmp.Compare(place(a), place(b)) })
	return causes
}

// place is a cause's place in the order. An alert that nothing explains stands before what an
// operator or a limit may want to be so if it is of the first severity and no matter of the SLO.
func place(c Cause) int {
	at := 10 * slices.Index(Kinds, c.Kind)
	if c.Kind != KindAlert {
		return at
	}
	head := c.Alerts[0]
	switch {
	case head.Severity == alerts.SeverityP1 && !slices.Contains(families[0].rules, head.Rule):
		return 10*slices.Index(Kinds, KindFailures) - 5
	case head.Severity == alerts.SeverityP1:
		return at
	case head.Severity == alerts.SeverityP2:
		return at + 1
	}
	return at + 2
}

// explains returns the first cause of the likeliest kind, or -1.
func explains(causes []Cause, kinds []Kind) int {
	for _, kind := range kinds {
		if at := slices.IndexFunc(causes, func(c Cause) bool { return c.Kind == kind }); at >= 0 {
			return at
		}
	}
	return -1
}

func split[T any](all []T, is func(T) bool) (some, others []T) {
	for _, each := range all {
		if is(each) {
			some = append(some, each)
		} else {
			others = append(others, each)
		}
	}
	return some, others
}

func alertCause(open []*alerts.Alert) Cause {
	head := open[0]
	c := Cause{Kind: KindAlert, Urgent: head.AcknowledgedAt == nil && head.Severity != alerts.SeverityP3, Title: head.Message,
		Path: "/alerts/rules/" + head.Rule, Since: head.Since, Alerts: open}
	c.Detail = string(head.Severity)
	if head.AcknowledgedAt != nil {
		c.Detail += ", acknowledged"
	}
	return c
}

var halted = map[models.HaltTarget]string{models.HaltSchedules: "Schedules are halted", models.HaltLeases: "Leases are halted"}

func (f *Facts) halts() (all []Cause) {
	for _, h := range f.Overview.Halts {
		all = append(all, Cause{Kind: KindHalt, Urgent: true, Title: halted[h.What], Detail: by(h.By, h.Reason), Path: "/system", Since: h.Since})
	}
	return all
}

// by says who did something, and why.
func by(who, why string) string {
	if why == "" {
		return "by " + who
	}
	return "by " + who + ": " + why
}

func (f *Facts) workers() (all []Cause) {
	for _, w := range f.Overview.Failing {
		detail := text.Count(w.Failures, "failure") + " of " + text.Count(w.Jobs, "job") + " in the last hour"
		if w.Quarantined(f.Now) {
			detail += "; in quarantine"
		}
		all = append(all, Cause{Kind: KindWorker, Urgent: !w.Quarantined(f.Now), Title: "Jobs fail on worker " + w.InstanceID, Detail: detail,
			Path: "/workers/" + string(w.ID)})
	}
	return all
}

func (f *Facts) pools() (all []Cause) {
	for _, pool := range f.Pools {
		c := Cause{Path: poolPath(pool.ID)}
		switch {
		case !pool.PausedAt.IsZero():
			c.Kind, c.Title, c.Since = KindPoolPause, "Pool "+pool.Name+" is paused", pool.PausedAt
			if pool.PausedBy != nil {
				c.Detail = "by " + *pool.PausedBy
			}
		case pool.BackoffUntil.After(f.Now) && pool.Partly():
			c.Kind, c.Title, c.Detail = KindProvider, "Pool "+pool.Name+" gets only some of its machines", pool.BackoffReason
		case pool.BackoffUntil.After(f.Now):
			c.Kind, c.Urgent, c.Title, c.Detail = KindProvider, true, "Pool "+pool.Name+" gets no machines", pool.BackoffReason
		case pool.NotBooting():
			c.Kind, c.Urgent, c.Title = KindBoot, true, "Machines of pool "+pool.Name+" do not start"
			c.Detail = text.Count(pool.BootFailures, "machine") + " in a row: " + pool.BootFailure
		case pool.ProviderProblem != "":
			c.Kind, c.Urgent, c.Title, c.Detail, c.Since = KindProvider, true, "The provider of pool "+pool.Name+" fails", pool.ProviderProblem,
				pool.ProviderProblemSince
		case f.Overview.Queued > 0 && pool.Busy+pool.Idle+pool.Booting >= pool.MaxWorkers && pool.MaxWorkers > 0 && pool.Idle == 0:
			c.Kind, c.Title, c.Detail = KindPoolAtMaximum, "Pool "+pool.Name+" is at its limit", "of "+text.Count(pool.MaxWorkers, "worker")+
				", and jobs wait"
		default:
			continue
		}
		all = append(all, c)
	}
	return all
}

func poolPath(id models.PoolID) string { return "/pools/" + string(id) }

func (f *Facts) noWorkers() []Cause {
	o := f.Overview
	if o.Queued == 0 || o.WorkersBusy+o.WorkersIdle+o.WorkersBooting > 0 {
		return nil
	}
	return []Cause{{Kind: KindNoWorkers, Urgent: true, Title: "No workers", Detail: text.Count(o.Queued, "job") + " wait", Path: "/pools"}}
}

func (f *Facts) failing() (all []Cause) {
	for _, s := range f.Failures {
		if s.DeadLetters < leastDeadLetters || 2*s.DeadLetters < s.All {
			continue // many different causes are told by the alerts
		}
		whose := " of account " + s.Account
		if s.Accounts != 1 {
			whose = " of " + text.Count(s.Accounts, "account")
		}
		all = append(all, Cause{Kind: KindFailures, Urgent: true, Title: text.Count(s.DeadLetters, s.Model+" job") + whose +
			" failed for one reason",
			Detail: s.Reason, Path: "/dead-letters/group?cause=" + url.QueryEscape(s.Fingerprint), Since: s.Since})
	}
	return all
}

func (f *Facts) pauses() (all []Cause) {
	for _, p := range f.Overview.Pauses {
		all = append(all, Cause{Kind: KindPause, Title: queueName(p.Lane, p.Model) + " is paused", Detail: by(p.By, p.Reason), Path: "/queues",
			Since: p.At})
	}
	return all
}

// queueName names a queue, a lane or a model in a lane, at the beginning of a sentence.
func queueName(lane models.Tier, model string) string {
	name := strings.ToLower(string(lane)) + " lane"
	if model != "" {
		return model + " in the " + name
	}
	return "The " + name
}

func (f *Facts) floods() (all []Cause) {
	for _, s := range f.Shares {
		if s.Floods() {
			all = append(all, Cause{Kind: KindFlood, Title: "Account " + s.Name + " floods the " + strings.ToLower(string(s.Lane)) + " lane",
				Detail: fmt.Sprintf("with %d of its %s", s.Queued, text.Count(s.LaneQueued, "waiting job")), Path: "/queues/" +
					strings.ToLower(string(s.Lane))})
		}
	}
	return all
}

func (f *Facts) endpoints() []Cause {
	switch n := len(f.Endpoints); n {
	case 0:
		return nil
	case 1:
		e := f.Endpoints[0]
		return []Cause{{Kind: KindEndpoint, Title: "A webhook endpoint fails", Detail: text.Count(e.FailedTries, "try") + " in a row failed: " +
			e.URL, Path: "/webhooks/" + string(e.ID), Since: e.FailingSince}}
	default:
		return []Cause{{Kind: KindEndpoint, Title: text.Count(n, "webhook endpoint") + " fail", Path: "/webhooks",
			Since: f.Endpoints[0].FailingSince}}
	}
}

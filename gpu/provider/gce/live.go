package gce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// liveCleanUp bounds the last deletes and lists of a [Live], also after an interruption.
const liveCleanUp = 5 * time.Minute

// Live goes through the life of one real machine on Compute Engine. Its pool exists nowhere else, so no
// scaler sees the machine, and it shows its identity instead of running an agent.
type Live struct {
	// Config is that of the provider. Its Cluster is replaced.
	Config Config
	// Pool says what the machine is like. Its name is replaced, and its life is bounded to 10
	// minutes, after which Compute Engine deletes the machine by itself.
	Pool capacity.PoolSpec
	// Wait is how long each step may take.
	Wait time.Duration
	// Poll is the time between two lists. The default is 2 seconds.
	Poll time.Duration
	// Verify verifies the identity of the machine.
	Verify Verify
	// Done is called with each step as soon as it is known; it may be nil.
	Done func(LiveStep)
}

// The results of a step.
const (
	LiveOK       = "OK"
	LiveUntested = "UNTESTED"
	LiveLater    = "LATER" // nobody knows yet: the report says how to look
	LiveWrong    = "WRONG"
)

// LiveStep is one step of a [Live].
type LiveStep struct {
	Step   string `json:"step"`
	Result string `json:"result"` // LiveOK, LiveUntested, LiveLater or LiveWrong
	// Says is what was seen, or what went wrong.
	Says    string  `json:"says"`
	Seconds float64 `json:"seconds"`
}

// LiveReport is what a [Live] found, to be kept and shown to others: it has no secret.
type LiveReport struct {
	At          time.Time  `json:"at"`
	Project     string     `json:"project"`
	MachineType string     `json:"machineType"`
	Machine     string     `json:"machine"`
	Zone        string     `json:"zone"`
	Labels      string     `json:"labels"` // by which the bill finds the machine
	Steps       []LiveStep `json:"steps"`
	// BillQuery is the query in BigQuery that shows what the machine cost, and BillReport where the console does, both a day
	// later. They are empty if there was no machine.
	BillQuery  string `json:"billQuery,omitempty"`
	BillReport string `json:"billReport,omitempty"`
	// Remaining is the machine if it may still run, with a command that deletes it in CleanUp.
	Remaining string `json:"remaining,omitempty"`
	CleanUp   string `json:"cleanUp,omitempty"`
}

// Passed reports whether no step was wrong and nothing remains.
func (r *LiveReport) Passed() bool {
	return r.Remaining == "" && !slices.ContainsFunc(r.Steps, func(s LiveStep) bool { return s.Result == LiveWrong })
}

// Markdown returns the report as a page.
func (r *LiveReport) Markdown() string {
	var page strings.Builder
	fmt.Fprintf(&page, "# Compute Engine, %s\n\nMachine `%s` (%s) in `%s`, project `%s`. Labels on the bill: `%s`.\n\n",
		r.At.UTC().Format(time.RFC3339),
		r.Machine, r.MachineType, cmp.Or(r.Zone, "no zone"), r.Project, r.Labels)
	page.WriteString("| step | result | seconds | what was seen |\n| --- | --- | --- | --- |\n")
	for _, s := range r.Steps {
		says := strings.NewReplacer("|", `\|`, "\n", " ").Replace(s.Says)
		fmt.Fprintf(&page, "| %s | %s | %.1f | %s |\n", s.Step, s.Result, s.Seconds, says)
	}
	if r.BillQuery != "" {
		fmt.Fprintf(&page, "\n## Costs, the day after\n\n%s\n\n```sql\n%s\n```\n", r.BillReport, r.BillQuery)
	}
	if r.Remaining != "" {
		fmt.Fprintf(&page, "\n**The machine may still run.** This deletes it:\n\n```sh\n%s\n```\n", r.CleanUp)
	}
	return page.String()
}

// live is a run of a [Live].
type live struct {
	Live
	provider *Provider
	pool     *capacity.Pool
	settings *Settings
	audience string // of the machine's identity token
	id       string
	zone     string
	made     bool // the machine may exist
	seen     bool // it existed
	report   *LiveReport
}

// Run goes through the steps. It deletes the machine, also when ctx ends. It returns an error only
// if it could not begin.
func (l Live) Run(ctx context.Context) (*LiveReport, error) {
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: l.Pool}
	suffix := strings.ReplaceAll(uuid.NewString(), "-", "")
	pool.Name, pool.Provider = "reelay-test-"+suffix[:8], Name
	settings, err := ReadSettings(pool)
	if err == nil {
		err = CheckPool(pool)
	}
	if err != nil {
		return nil, err
	}
	audience := newAudience()
	if pool.Settings, err = showingIdentity(pool.Settings, audience); err == nil {
		err = CheckPool(pool)
	}
	if err != nil {
		return nil, err
	}
	l.Config.Cluster = "reelay-test"
	l.Poll = cmp.Or(l.Poll, 2*time.Second)
	run := &live{Live: l, provider: New(l.Config), pool: pool, settings: settings, audience: audience,
		id: pool.Name + "-" + suffix[8:16]}
	run.report = &LiveReport{At: time.Now(), Project: settings.Project, MachineType: pool.MachineType, Machine: run.id,
		Labels: fmt.Sprintf("%s=%s, %s=%s", labelPool, pool.ID, labelCluster, Label(l.Config.Cluster))}
	run.steps(ctx)
	run.cleanUp(ctx)
	if run.seen {
		run.costs()
	}
	return run.report, nil
}

// steps goes through the steps until one fails that the others need.
func (l *live) steps(ctx context.Context) {
	request := uuid.NewString()
	for _, s := range []struct {
		name string
		do   func(context.Context) (string, error)
		// apart means that the steps after it do not need it.
		apart bool
	}{
		{"list an empty pool", l.listsNothing, false},
		{"create a machine", func(ctx context.Context) (string, error) { return l.creates(ctx, request) }, false},
		{"find it in the list", l.finds, false},
		{"repeat the create", func(ctx context.Context) (string, error) { return l.creates(ctx, request) }, false},
		{"find it once", l.finds, false},
		{"wait until it runs", l.runs, false},
		{"register by identity", l.registers, true},
		{"preempt it", l.preempts, false},
		{"delete it", l.deletes, false},
	} {
		if !l.step(ctx, s.name, s.do) && (!s.apart || ctx.Err() != nil) {
			return
		}
	}
}

// costs says how to see what the machine cost, by its labels. The bill has it a day later.
func (l *live) costs() {
	day := l.report.At.UTC()
	l.report.BillReport = fmt.Sprintf("In Google Cloud's console: Billing, Reports; the days %s to %s, the label `%s` = `%s`, grouped by SKU. "+
		"Or in BigQuery, if the billing account is exported there:", day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly),
		labelPool, l.pool.ID)
	l.report.BillQuery = fmt.Sprintf(`SELECT sku.description AS sku, SUM(usage.amount_in_pricing_units) AS amount, usage.pricing_unit AS unit,
  SUM(cost) AS cost, SUM(IFNULL((SELECT SUM(c.amount) FROM UNNEST(credits) AS c), 0)) AS credits, currency
FROM `+"`PROJECT.DATASET.gcp_billing_export_v1_ACCOUNT`"+` -- the table of your export
WHERE project.id = '%s' AND usage_end_time > TIMESTAMP '%s'
  AND EXISTS (SELECT 1 FROM UNNEST(labels) AS l WHERE l.key = '%s' AND l.value = '%s')
GROUP BY sku, unit, currency ORDER BY cost DESC`, l.report.Project, day.Truncate(time.Hour).Format(time.RFC3339), labelPool, l.pool.ID)
	l.done(LiveStep{Step: "costs by label", Result: LiveLater,
		Says: "Google's bill shows them within a day: run the query of this report tomorrow. It must find the machine and its disk."})
}

// errUntested is wrapped by what is no fault of the provider.
var errUntested = errors.New("untested")

func (l *live) step(ctx context.Context, name string, do func(context.Context) (string, error)) (goOn bool) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.Wait)
	defer cancel()
	says, err := do(ctx)
	s := LiveStep{Step: name, Result: LiveOK, Says: says, Seconds: time.Since(began).Seconds()}
	class := fleet.ClassOf(err)
	switch {
	case errors.Is(err, errUntested):
		s.Result = LiveUntested
	case err != nil && (class == fleet.Stockout || class == fleet.Quota):
		s.Result, s.Says = LiveUntested, string(class)+": "+err.Error()
	case err != nil:
		s.Result, s.Says = LiveWrong, string(class)+": "+err.Error()
	}
	l.done(s)
	return err == nil || errors.Is(err, errUntested)
}

func (l *live) done(s LiveStep) {
	l.report.Steps = append(l.report.Steps, s)
	if l.Done != nil {
		l.Done(s)
	}
}

func (l *live) listsNothing(ctx context.Context) (string, error) {
	all, err := l.provider.List(ctx, l.pool)
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("the list has %d machines of a pool that never had one, such as %s", len(all), all[0].ID)
	}
	return "no machines", err
}

func (l *live) creates(ctx context.Context, request string) (string, error) {
	l.made = true
	created := l.provider.Create(ctx, l.pool, request, []string{l.id})[0]
	l.zone = cmp.Or(created.Zone, l.zone)
	l.report.Zone = l.zone
	return "in " + cmp.Or(l.zone, "a zone that the list will tell"), created.Err
}

// until lists the pool until is returns true for what the list says of the machine, nil if it has none.
func (l *live) until(ctx context.Context, what string, is func(*fleet.Instance) bool) (*fleet.Instance, error) {
	ticker := time.NewTicker(l.Poll)
	defer ticker.Stop()
	for {
		all, err := l.provider.List(ctx, l.pool)
		var found *fleet.Instance
		for _, i := range all {
			if i.ID != l.id {
				return nil, fmt.Errorf("the list has the machine %s, which was not asked for", i.ID)
			}
			if found != nil {
				return nil, errors.New("the list has the machine twice")
			}
			found = &i
		}
		if err == nil && is(found) {
			return found, nil
		}
		select {
		case <-ctx.Done():
			state := "no machine"
			if found != nil {
				state = string(found.State)
			}
			return nil, errors.Join(fmt.Errorf("%s did not happen within %s: the list says %s", what, l.Wait, state), err)
		case <-ticker.C:
		}
	}
}

func alive(i *fleet.Instance) bool { return i != nil && i.State != fleet.InstanceEnded }

func (l *live) finds(ctx context.Context) (string, error) {
	found, err := l.until(ctx, "the appearance in the list", alive)
	if err != nil {
		return "", err
	}
	l.zone, l.seen = cmp.Or(found.Zone, l.zone), true
	l.report.Zone = l.zone
	return fmt.Sprintf("%s in %s, by its labels", found.State, found.Zone), nil
}

func (l *live) runs(ctx context.Context) (string, error) {
	_, err := l.until(ctx, "the boot", func(i *fleet.Instance) bool { return i != nil && i.State == fleet.InstanceRunning })
	return "RUNNING", err
}

func (l *live) preempts(ctx context.Context) (string, error) {
	if l.pool.CapacityClass != models.CapacitySpot {
		return "the pool is not SPOT", errUntested
	}
	if err := l.provider.Preempt(ctx, l.pool, fleet.Instance{ID: l.id, Zone: l.zone}, 0); err != nil {
		return "", err
	}
	gone, err := l.until(ctx, "the end by a simulated maintenance event", func(i *fleet.Instance) bool { return !alive(i) })
	if err != nil {
		return "", err
	}
	if gone == nil || !gone.Reclaimed {
		return "", errors.New("the machine is gone, and the list does not say that Compute Engine reclaimed it")
	}
	return "ENDED and reclaimed", nil
}

func (l *live) deletes(ctx context.Context) (string, error) {
	if err := l.provider.Delete(ctx, l.pool, []fleet.Instance{{ID: l.id, Zone: l.zone}})[l.id]; err != nil {
		return "", err
	}
	_, err := l.until(ctx, "the delete", func(i *fleet.Instance) bool { return !alive(i) })
	if err == nil {
		l.made = false
	}
	return "gone", err
}

// cleanUp deletes the machine if it may exist.
func (l *live) cleanUp(ctx context.Context) {
	if !l.made {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveCleanUp)
	defer cancel()
	for range 3 { // a delete can be repeated
		if l.step(ctx, "clean up", l.deletes) {
			return
		}
	}
	l.report.Remaining = l.id
	l.report.CleanUp = fmt.Sprintf("gcloud compute instances list --project=%s --filter='name=%s'\n"+
		"gcloud compute instances delete %s --project=%s --zone=%s",
		l.report.Project, l.id, l.id, l.report.Project, cmp.Or(l.zone, "ZONE"))
}

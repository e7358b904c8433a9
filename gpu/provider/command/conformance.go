package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

const (
	// MaxTestMachines is how many machines a [Conformance] may have at a time.
	MaxTestMachines = 5
	// cleanUpLimit bounds the last deletes and lists, also after an interruption.
	cleanUpLimit = 5 * time.Minute
	// testEndpoint is the address that the agents of test machines get. Nobody has it, so they join
	// no fleet.
	testEndpoint = "https://reelay.invalid"
)

// Level says how a check went.
type Level string

const (
	// LevelOK means that the program does what the check asks.
	LevelOK Level = "OK"
	// LevelAdvice means the same, and that something could be better.
	LevelAdvice Level = "ADVICE"
	// LevelUntested means that the check could not run.
	LevelUntested Level = "UNTESTED"
	// LevelWrong means that the program does not keep to the protocol.
	LevelWrong Level = "WRONG"
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Rule is what the program must do.
	Rule string `json:"rule"`
	// Found is what it does, and Fix how to mend it. Both are "" if Level is LevelOK.
	Found string `json:"found,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

// TestReport is the result of a [Conformance].
type TestReport struct {
	// Pool is the name of the pool that the program was called for.
	Pool     string    `json:"pool"`
	Findings []Finding `json:"findings"`
	// Remaining are the machines that may still run, and CleanUp a command that deletes them.
	Remaining []string `json:"remaining"`
	CleanUp   string   `json:"cleanUp,omitempty"`
}

// Passed reports whether all checks ran and found nothing wrong, and no machine remains.
func (r *TestReport) Passed() bool {
	return len(r.Remaining) == 0 && !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Level == LevelWrong || f.Level == LevelUntested
	})
}

// Conformance calls a program as the scaler does, and as the scaler does when things go wrong. It
// creates machines of a pool that exists nowhere else, and deletes them.
type Conformance struct {
	// Folder holds the program, which Pool.Settings names. Of the pool, the id and the name are
	// replaced.
	Folder string
	Pool   capacity.PoolSpec
	// Machines is how many machines there may be at a time, 1 to MaxTestMachines.
	Machines int
	// Wait is how long a machine may take to appear in the list after its create, and to leave it
	// after its delete.
	Wait time.Duration
	// Progress is called with a sentence before each step, and Found with the result of each check.
	Progress func(string)
	Found    func(Finding)
	// Log gets what the program writes to its standard error.
	Log *slog.Logger
}

// Run runs the checks. It deletes all machines that it created, also when ctx ends, and returns an
// error only if it could not begin.
func (c Conformance) Run(ctx context.Context) (*TestReport, error) {
	folder, err := os.MkdirTemp("", "reelay-provider-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	key, _ := secrets.New(secrets.KeyPrefix) // no API knows it
	file := filepath.Join(folder, "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		return nil, err
	}
	t := &trial{Conformance: c, grace: stopGrace, pool: testPool(c.Pool), made: map[string]fleet.Instance{}}
	t.provider = New(Config{Folder: c.Folder, Enrolment: fleet.Enrolment{Endpoint: testEndpoint, KeyFile: file}, Log: c.Log})
	t.provider.trial = t
	settings, err := readSettings(t.pool)
	if err == nil {
		_, err = find(t.provider.config.Folder, settings.Program)
	}
	if err != nil {
		return nil, err
	}
	t.settings = settings
	t.run(ctx)
	return t.report(ctx), nil
}

// testPool returns a pool like another one, with an id and a name that no other has.
func testPool(spec capacity.PoolSpec) *capacity.Pool {
	id := models.NewPoolID()
	compact := strings.ReplaceAll(string(id), "-", "")
	spec.Name = "reelay-test-" + compact[len(compact)-8:]
	spec.Provider = Name
	spec.CapacityClass = cmp.Or(spec.CapacityClass, models.CapacitySpot)
	spec.Region, spec.GPUType = cmp.Or(spec.Region, "test"), cmp.Or(spec.GPUType, "TEST")
	if len(spec.Models) == 0 {
		spec.Models = []string{"testcard"}
	}
	spec.Fill()
	return &capacity.Pool{ID: id, PoolSpec: spec}
}

// run runs the checks in order, until one fails that the others need.
func (t *trial) run(ctx context.Context) {
	all := t.checks()
	for i, check := range all {
		t.progress("%d of %d: %s", i+1, len(all), check.doing)
		f := Finding{Check: check.name, Rule: check.rule, Level: LevelOK}
		switch fault := t.try(ctx, check); {
		case ctx.Err() != nil:
			f.Level, f.Found = LevelUntested, "The test was interrupted."
		case t.blocked != "" && fault == nil:
			f.Level, f.Found = LevelUntested, t.blocked
		case fault != nil:
			f.Level, f.Found, f.Fix = cmp.Or(fault.level, LevelWrong), fault.found, fault.fix
			if check.needed && f.Level != LevelAdvice {
				t.blocked = fmt.Sprintf("The check %q must pass first.", check.name)
			}
		}
		t.add(f)
	}
}

// try runs a check. What is wrong with the output of a call comes before what the check says.
func (t *trial) try(ctx context.Context, check check) *flaw {
	if ctx.Err() != nil || t.blocked != "" {
		return nil
	}
	t.takeFaults()
	found := check.run(ctx)
	return cmp.Or(t.takeFaults(), found)
}

func (t *trial) add(f Finding) {
	t.findings = append(t.findings, f)
	if t.Found != nil {
		t.Found(f)
	}
}

func (t *trial) progress(format string, args ...any) {
	if t.Progress != nil {
		t.Progress(fmt.Sprintf(format, args...))
	}
}

// report deletes what remains, and returns the result.
func (t *trial) report(ctx context.Context) *TestReport {
	if len(t.made) > 0 {
		t.progress("deleting %d machines; if this is interrupted, delete them with", len(t.made))
		t.progress("%s", t.cleanUp())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
		f := Finding{Check: "clean-up", Rule: "All machines of the test are deleted.", Level: LevelOK}
		fault := t.clear(ctx)
		for range 2 { // a delete can be repeated
			if fault != nil && ctx.Err() == nil {
				fault = t.clear(ctx)
			}
		}
		if fault != nil {
			f.Level, f.Found, f.Fix = LevelWrong, fault.found, "Delete the machines by hand, and see below."
			t.add(f)
		}
	}
	r := &TestReport{Pool: t.pool.Name, Findings: t.findings, Remaining: slices.Sorted(maps.Keys(t.made))}
	if r.Remaining == nil {
		r.Remaining = []string{}
	}
	if len(r.Remaining) > 0 {
		r.CleanUp = t.cleanUp()
	}
	return r
}

// cleanUp returns the shell command that deletes the machines.
func (t *trial) cleanUp() string {
	r := request{Verb: verbDelete, Pool: describe(t.pool), Options: optionsOf(t.settings)}
	for _, id := range slices.Sorted(maps.Keys(t.made)) {
		r.Instances = append(r.Instances, requestInstance{ID: id, Zone: t.made[id].Zone})
	}
	asked, err := json.Marshal(r)
	if err != nil {
		asked = []byte(err.Error())
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	return fmt.Sprintf("cd %s && printf %%s %s | ./%s %s",
		quote(t.provider.config.Folder), quote(string(asked)), t.settings.Program, verbDelete)
}

// flaw is what is wrong with a program.
type flaw struct {
	level      Level // "" means LevelWrong
	found, fix string
}

// refused turns an error of a call into a flaw. The cloud is free to have no machines: then the
// program cannot be tested.
func refused(what string, err error) *flaw {
	if err == nil {
		return nil
	}
	f := blame(err, "End with the status 0 after one line of JSON per instance. If something failed, say so in the line's error, or "+
		"end with another status after a sentence on the standard error.")
	f.found = fmt.Sprintf("%s, it answered %s: %s.", what, fleet.ClassOf(err), strings.TrimSuffix(err.Error(), "."))
	if errors.Is(err, fleet.ErrNoInstance) {
		f.fix = "Use the class GONE only for a preempt."
	}
	return f
}

// blame returns a flaw that says who can mend an error of a call: by its class the cloud, the person at this shell, or the author
// of the program, with the fix for the author. Only of the author's errors the check is LevelWrong.
func blame(err error, author string) *flaw {
	switch fleet.ClassOf(err) {
	case fleet.Stockout, fleet.Quota:
		return &flaw{level: LevelUntested,
			fix: "Try again when the cloud has such machines, or with another machine type or region (--file)."}
	case fleet.Permission:
		return &flaw{level: LevelUntested,
			fix: "Set the credentials and variables of the program in this shell, give them the rights that " +
				"they need, and install its tools: docs/operators/clouds.md lists them for the programs of Reelay."}
	case fleet.Invalid:
		return &flaw{level: LevelUntested,
			fix: "Correct the options and the machine type in --file or --settings: docs/operators/clouds.md lists " +
				"them for the programs of Reelay. If they are right, correct the program."}
	}
	return &flaw{fix: author}
}

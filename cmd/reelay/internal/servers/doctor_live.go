package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/adapters/identity"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/spf13/cobra"
)

// maxLiveWait bounds --wait.
const maxLiveWait = time.Hour

// liveFlags is the flags of `reelay doctor --live`.
type liveFlags struct {
	terminal.YesFlag
	on              bool
	project, report string
	wait            time.Duration
}

func (l *liveFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&l.on, "live", false, "with --gce and --file: create one machine like those of the pool, which costs money, and delete it")
	f.StringVar(&l.project, "project", "", "with --live, the project in which the machine is paid for: it must be that of the pool")
	f.StringVar(&l.report, "report", "gce-live", "with --live, the `name` of the files of the report, without .json and .md")
	f.DurationVar(&l.wait, "wait", 5*time.Minute, "with --live, how long a step may take")
	l.AddFlag(cmd)
	f.Lookup("yes").Usage = "with --live, do not ask for confirmation"
}

// check returns what is wrong with the flags together.
func (l *liveFlags) check(cmd *cobra.Command, o *doctorFlags) error {
	if !l.on {
		for _, name := range []string{"project", "report", "wait", "yes"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is for --live: give both", name)
			}
		}
		return nil
	}
	switch {
	case !o.with.gce || o.with.kubernetes:
		return errors.New("--live is for Compute Engine: give --gce, and leave out --kubernetes")
	case o.file == "" || l.project == "":
		return errors.New("--live needs --file and --project: a machine is created in the project, which costs money")
	case o.asJSON:
		return fmt.Errorf("--live prints no JSON: it writes %s.json (--report)", l.report)
	case l.report == "":
		return errors.New("--report is empty: it must be the name of the files of the report, without .json and .md")
	case l.wait < time.Second || l.wait > maxLiveWait:
		return fmt.Errorf("--wait is %s: it must be from 1s to %s", l.wait, maxLiveWait)
	}
	return nil
}

func (l *liveFlags) run(cmd *cobra.Command, o *doctorFlags) error {
	cfg := settings.Read()
	if err := cfg.Check(); err != nil {
		return err
	}
	spec, err := settings.ReadPool(o.file, o.pool, gce.Name)
	if err != nil {
		return err
	}
	own, err := gce.ReadSettings(&capacity.Pool{PoolSpec: spec})
	if err != nil {
		return err
	}
	if own.Project != l.project {
		return fmt.Errorf("the pool %s is in the project %s, and --project is %s: give the project of the pool", output.Clean(spec.Name),
			output.Clean(own.Project), output.Clean(l.project))
	}
	spec.Fill()
	enrolment, forget, err := noFleet()
	if err != nil {
		return err
	}
	defer forget()
	config := gce.Config{APIEndpoint: os.Getenv("REELAY_GCE_ENDPOINT"), Enrolment: enrolment}
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: spec}
	found := (&gce.Examiner{Provider: gce.New(config), Pools: []*capacity.Pool{pool}}).Examine(cmd.Context())
	if err := printFindings(cmd.OutOrStdout(), found, o.verbose); err != nil {
		return err
	}
	if doctor.Worst(found) == doctor.LevelBroken {
		return errors.New("something is broken: no machine was created")
	}
	question := fmt.Sprintf("This creates and deletes a machine of the type %s in the project %s, which costs money. Continue?",
		output.Clean(spec.MachineType), output.Clean(l.project))
	if err := l.Insist(cmd, question); err != nil {
		return err
	}
	return l.live(cmd, gce.Live{Config: config, Pool: spec, Wait: l.wait, Verify: verifies(cfg.Machines.KeysURL)})
}

// live goes through the life of a machine, and prints and writes what it saw.
func (l *liveFlags) live(cmd *cobra.Command, live gce.Live) error {
	out := output.ScreenOf(cmd.OutOrStdout())
	fmt.Fprintln(out)
	live.Done = func(s gce.LiveStep) {
		fmt.Fprintf(out, "%-8s %-22s %6.1f s  %s\n", s.Result, s.Step, s.Seconds, output.Clean(s.Says))
	}
	report, err := live.Run(cmd.Context())
	if err != nil {
		return err
	}
	err = l.write(report)
	if report.BillQuery != "" {
		fmt.Fprintf(out, "\nCosts, the day after. %s\n\n%s\n", output.Clean(report.BillReport), report.BillQuery)
	}
	if report.Remaining != "" {
		fmt.Fprintf(out, "\nThe machine %s may still run and cost money. This deletes it:\n\n%s\n", report.Remaining,
			output.Clean(report.CleanUp))
	}
	switch {
	case cmd.Context().Err() != nil && report.Remaining == "":
		return errors.Join(err, terminal.ErrInterrupted)
	case !report.Passed():
		return errors.Join(err, errors.New("not all steps passed"))
	}
	return err
}

// verifies returns what verifies identity tokens as api does, with the keys of an address; "" is Google's.
func verifies(keysURL string) gce.Verify {
	return func(ctx context.Context, token string, as gce.API) (*jobs.Machine, error) {
		config := identity.Config{Audience: as.Audience, Projects: []string{as.Project}, KeysURL: keysURL,
			Now: func() time.Time { return time.Now().Add(as.Ahead) }}
		if as.Account != "" {
			config.Accounts = []string{as.Account}
		}
		return identity.New(config).Verify(ctx, token)
	}
}

// write writes both files of the report.
func (l *liveFlags) write(report *gce.LiveReport) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(l.report+".json", text, 0o644), os.WriteFile(l.report+".md", []byte(report.Markdown()), 0o644))
}

// noFleet returns an enrolment with a key that no API knows, and an address that does not exist.
func noFleet() (e fleet.Enrolment, forget func(), err error) {
	folder, err := os.MkdirTemp("", "reelay-gce-")
	if err != nil {
		return e, nil, err
	}
	key, _ := secrets.New(secrets.KeyPrefix)
	file := filepath.Join(folder, "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		os.RemoveAll(folder)
		return e, nil, err
	}
	return fleet.Enrolment{Endpoint: "https://reelay.invalid", KeyFile: file}, func() { os.RemoveAll(folder) }, nil
}

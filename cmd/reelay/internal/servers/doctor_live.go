package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/models/capacity"
	"github.com/spf13/cobra"
)

// testGCE is the flags of `reelay providers test-gce`.
type testGCE struct {
	terminal.YesFlag
	file, pool, project, report string
	wait                        time.Duration
}

func testGCECommand() *cobra.Command {
	var o testGCE
	cmd := &cobra.Command{
		Use:   "test-gce",
		Short: "Go through the life of one machine on Compute Engine",
		Long: "Creates one machine like those of a pool on Compute Engine, finds it by its labels, repeats the create, waits until\n" +
			"it runs, preempts it by a simulated maintenance event, and deletes it, also when it is interrupted. Its pool exists\n" +
			"nowhere else, and its agent gets an address that does not exist, so it joins no fleet. Compute Engine deletes the\n" +
			"machine after 10 minutes in any case. Choose the smallest machine type.\n\n" +
			"It needs Google's default credentials, and no servers. It writes what it saw to NAME.json and NAME.md (--report),\n" +
			"without secrets. See docs/operators/gce.md.\n\n" +
			"Exit status: 0 if nothing was wrong (a step may be untested); 1 otherwise.",
		Example: "  reelay providers test-gce --file pools.yaml --pool smallest --project my-project",
		Args:    cobra.NoArgs,
		RunE:    o.run,
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "`file` of pools in YAML or JSON (required)")
	f.StringVar(&o.pool, "pool", "", "name of the pool of --file, if it has several")
	f.StringVar(&o.project, "project", "", "the project in which the machine is paid for: it must be that of the pool (required)")
	f.StringVar(&o.report, "report", "gce-live", "`name` of the files of the report, without .json and .md")
	f.DurationVar(&o.wait, "wait", 5*time.Minute, "how long a step may take")
	o.AddFlag(cmd)
	return cmd
}

func (o *testGCE) run(cmd *cobra.Command, _ []string) error {
	switch {
	case o.file == "" || o.project == "":
		return terminal.UsageError(cmd, errors.New("--file and --project are required: a machine is created in the project, which costs money"))
	case o.wait < time.Second || o.wait > maxWait:
		return terminal.UsageError(cmd, fmt.Errorf("--wait is %s: it must be from 1s to %s", o.wait, maxWait))
	}
	spec, err := readPool(o.file, o.pool, gce.Name)
	if err != nil {
		return err
	}
	settings, err := gce.ReadSettings(&capacity.Pool{PoolSpec: spec})
	if err != nil {
		return err
	}
	if settings.Project != o.project {
		return fmt.Errorf("the pool %s is in the project %s, and --project is %s: give the project of the pool", output.Clean(spec.Name),
			output.Clean(settings.Project), output.Clean(o.project))
	}
	spec.Fill()
	question := fmt.Sprintf("This creates and deletes a machine of the type %s in the project %s, which costs money. Continue?",
		output.Clean(spec.MachineType), output.Clean(o.project))
	if err := o.Insist(cmd, question); err != nil {
		return err
	}
	enrolment, forget, err := noFleet()
	if err != nil {
		return err
	}
	defer forget()
	out := output.ScreenOf(cmd.OutOrStdout())
	report, err := gce.Live{
		Config: gce.Config{APIEndpoint: os.Getenv("REELAY_GCE_ENDPOINT"), Enrolment: enrolment}, Pool: spec, Wait: o.wait,
		Done: func(s gce.LiveStep) {
			fmt.Fprintf(out, "%-8s %-22s %6.1f s  %s\n", s.Result, s.Step, s.Seconds, output.Clean(s.Says))
		},
	}.Run(cmd.Context())
	if err != nil {
		return err
	}
	err = o.write(report)
	if report.Remaining != "" {
		fmt.Fprintf(out, "\nThe machine %s may still run and cost money. This deletes it:\n\n%s\n", report.Remaining, output.Clean(report.CleanUp))
	}
	switch {
	case cmd.Context().Err() != nil && report.Remaining == "":
		return errors.Join(err, terminal.ErrInterrupted)
	case !report.Passed():
		return errors.Join(err, errors.New("not all steps passed"))
	}
	return err
}

// write writes both files of the report.
func (o *testGCE) write(report *gce.LiveReport) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(o.report+".json", text, 0o644), os.WriteFile(o.report+".md", []byte(report.Markdown()), 0o644))
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

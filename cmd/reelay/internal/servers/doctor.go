package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/adapters/peers"
	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/spf13/cobra"
)

// exitUnexamined is the exit status if the stores could not be examined.
const exitUnexamined = 2

// doctorFlags is the flags of `reelay doctor`.
type doctorFlags struct {
	data, file, pool string
	checkup          doctor.Checkup
	with             clouds
	live             liveFlags
	asJSON, verbose  bool
	document         output.Options
}

// DoctorCommand returns `reelay doctor`.
func DoctorCommand() *cobra.Command {
	var o doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that nothing is lost, duplicated or stuck",
		Long: "Checks the guarantees of Reelay on a live system: its rows, its objects, Redis, and the configuration of\n" +
			"the stores. It changes nothing, except that it writes one small object to the store and deletes it. Each\n" +
			"finding says why it matters and what to do. See docs/operators/doctor.md.\n\n" +
			"It finds the stores by DATABASE_URL, REDIS_URL, REELAY_STORE and STORAGE_EMULATOR_HOST, or by the file that a\n" +
			"running `reelay up` wrote to --data. With --file it needs no stores, and checks only the pools of that file.\n\n" +
			"With --live, it then goes through the life of one machine like those of a pool on Compute Engine: it creates the\n" +
			"machine, finds it by its labels, repeats the create, waits until it runs, verifies the identity by which its agent\n" +
			"would register, preempts it by a simulated maintenance event, and deletes it, also when it is interrupted. Its\n" +
			"pool exists nowhere else, and it joins no fleet. Compute Engine deletes the machine after 10 minutes in any case.\n" +
			"Choose the smallest machine type. It needs Google's default credentials. It writes what it saw to NAME.json and\n" +
			"NAME.md (--report), without secrets, and how to see the costs the day after. See docs/operators/gce.md.\n\n" +
			"Exit status: 0 if nothing is broken (there may be advice, and steps of --live that are untested); 1 if something is\n" +
			"broken; 2 if it could not check everything.",
		Example: "  reelay doctor\n  reelay doctor --full --json\n  reelay doctor --gce\n  reelay doctor --kubernetes --file pools.yaml\n" +
			"  reelay doctor --gce --live --file pools.yaml --pool smallest --project my-project",
		Args: cobra.NoArgs,
		RunE: o.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", ".reelay", "data folder of the running 'reelay up'")
	flags.BoolVar(&o.checkup.Full, "full", false, "read every job, not only the newest and the active ones")
	flags.BoolVar(&o.checkup.Hash, "hash", false, "read the bytes of videos and checkpoints, not only their metadata in the store")
	flags.BoolVar(&o.with.gce, "gce", false,
		"also check whether the pools on Compute Engine can have machines: access, quota, images, machine types, network")
	flags.BoolVar(&o.with.kubernetes, "kubernetes", false,
		"also check whether the pools on Kubernetes can have pods: access, rights, templates, quota")
	flags.StringVarP(&o.file, "file", "f", "", "check the pools of a `file` in YAML or JSON, and no stores")
	flags.StringVar(&o.pool, "pool", "", "`name` of the only pool of --file to check")
	o.live.add(cmd)
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "also print the checks that passed")
	o.document.AddDocumentFlags(cmd, &o.asJSON)
	return cmd
}

// check returns what is wrong with the flags together.
func (o *doctorFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case o.file == "" && given("file"):
		return errors.New("--file is empty: it must name a file of pools")
	case o.file != "" && o.with == clouds{}:
		return errors.New("--file is for pools of a cloud: give --gce or --kubernetes, too")
	case o.file != "" && (o.checkup.Full || o.checkup.Hash || given("data")):
		return errors.New("--file checks no stores: leave out --full, --hash and --data")
	case o.file == "" && given("pool"):
		return errors.New("--pool names a pool of --file: give both")
	}
	return o.live.check(cmd, o)
}

func (o *doctorFlags) run(cmd *cobra.Command, _ []string) error {
	if err := o.check(cmd); err != nil {
		return terminal.UsageError(cmd, err)
	}
	if o.live.on {
		return o.live.run(cmd, o)
	}
	do := func() ([]doctor.Finding, error) { return examine(cmd.Context(), o.data, o.checkup, o.with) }
	if o.file != "" {
		do = func() ([]doctor.Finding, error) { return examineFile(cmd.Context(), o.file, o.pool, o.with) }
	}
	found, err := do()
	if err != nil {
		return terminal.StatusError(exitUnexamined, err)
	}
	if o.asJSON {
		err = o.document.Print(output.ScreenOf(cmd.OutOrStdout()), map[string]any{"level": doctor.Worst(found), "findings": found}, nil)
	} else {
		err = printFindings(cmd.OutOrStdout(), found, o.verbose)
	}
	return errors.Join(err, verdict(found))
}

// verdict returns the error for the exit status.
func verdict(found []doctor.Finding) error {
	switch doctor.Worst(found) {
	case doctor.LevelBroken:
		return errors.New("something is broken")
	case doctor.LevelUnknown:
		return terminal.StatusError(exitUnexamined, errors.New("not everything could be examined"))
	}
	return nil
}

// clouds are the providers whose pools are examined, too.
type clouds struct{ gce, kubernetes bool }

// examiners returns what examines pools.
func (with clouds) examiners(cfg *settings.Config, pools []*capacity.Pool) (all []doctor.Examiner) {
	if with.gce {
		all = append(all, &gce.Examiner{Provider: cfg.GCEProvider(), Pools: pools})
	}
	if with.kubernetes {
		all = append(all, &kubernetes.Examiner{Provider: cfg.KubernetesProvider(), Pools: pools})
	}
	for _, provider := range []string{gce.Name, kubernetes.Name} {
		ofProvider := func(p *capacity.Pool) bool { return p.Provider == provider }
		if with.has(provider) && !slices.ContainsFunc(pools, ofProvider) {
			all = append(all, unexamined(provider))
		}
	}
	return all
}

// unexamined is the examiner of a provider without a pool.
type unexamined string

func (provider unexamined) Examine(context.Context) []doctor.Finding {
	return []doctor.Finding{{
		Check: string(provider) + "-pools", Level: doctor.LevelUnknown, Holds: "Pools of the provider " + string(provider) + " can have machines.",
		Found: "No pool has this provider, so nothing was examined.", Matters: "It could not be checked.",
		Fix: "Create a pool, or examine those of a file: reelay doctor --" + string(provider) + " --file pools.yaml.",
	}}
}

// has reports whether pools of a provider are examined.
func (with clouds) has(provider string) bool {
	return with.gce && provider == gce.Name || with.kubernetes && provider == kubernetes.Name
}

// examineFile examines the pools of a file, or the one of a name. It needs no stores.
func examineFile(ctx context.Context, file, name string, with clouds) ([]doctor.Finding, error) {
	cfg := settings.Read()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	specs, err := settings.ReadPools(file)
	if err != nil {
		return nil, err
	}
	var pools []*capacity.Pool
	for _, spec := range specs {
		if with.has(spec.Provider) && (name == "" || spec.Name == name) {
			spec.Fill()
			pools = append(pools, &capacity.Pool{ID: models.NewPoolID(), PoolSpec: spec})
		}
	}
	if len(pools) == 0 {
		return nil, fmt.Errorf("%s has no such pool: look at the names and the providers of its pools", file)
	}
	var found []doctor.Finding
	for _, examiner := range with.examiners(&cfg, pools) {
		found = append(found, examiner.Examine(ctx)...)
	}
	return found, ctx.Err()
}

// examine runs the checks on the configured stores.
func examine(ctx context.Context, data string, c doctor.Checkup, with clouds) ([]doctor.Finding, error) {
	cfg, err := findStores(data)
	if err != nil {
		return nil, err
	}
	db, closeDB, err := postgres.OpenPatient(ctx, cfg.DatabaseURL, 4)
	if _, refused := errors.AsType[*pgconn.ConnectError](err); refused && os.Getenv("DATABASE_URL") == "" {
		return nil, fmt.Errorf("the PostgreSQL of `reelay up` does not answer: start it with `reelay up --data %s` (%w)", data, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; is it running?", err)
	}
	defer closeDB()
	s := &stack{cfg: cfg, notifier: &change.Notifier{}}
	defer s.Close()
	if err := s.openRedis(); err != nil {
		return nil, err
	}
	objects, closeObjects := examinedObjects(ctx, cfg)
	defer closeObjects()
	others := []doctor.Examiner{s.redisExaminer(), objects}
	if hook := cfg.Moderation.Hook(nil); hook != nil {
		others = append(others, hook)
	}
	if cfg.Region != "" {
		secrets, err := seal.OpenFile(cfg.SecretsFile)
		if err != nil {
			return nil, err
		}
		promoter := &region.Promoter{Region: cfg.Region, Peers: cfg.Peers(secrets.LinkKeys), DB: db}
		others = append(others, &peers.Examiner{Look: promoter.Look})
	}
	if with != (clouds{}) {
		pools, err := capacity.ListPools(ctx, db, capacity.NoPoolLock)
		if err != nil {
			return nil, fmt.Errorf("list pools: %w", err)
		}
		others = append(others, with.examiners(&cfg, pools)...)
	}
	doctor := &doctor.Doctor{DB: db, Objects: objects, Index: s.notifier.Index, Others: others}
	return doctor.Examine(ctx, c)
}

// Examine returns the findings of `reelay doctor`.
func Examine(ctx context.Context, data string) (any, error) {
	found, err := examine(ctx, data, doctor.Checkup{}, clouds{})
	return map[string]any{"level": doctor.Worst(found), "findings": found}, err
}

// examine runs the checks over connections of their own.
func (s *stack) examine(ctx context.Context) ([]doctor.Finding, error) {
	return s.watchedExamination(ctx, nil)
}

// watchedExamination is examine for the console, which shows how far it is.
func (s *stack) watchedExamination(ctx context.Context, progress func(done, of int, next string)) ([]doctor.Finding, error) {
	db, closeDB, err := postgres.OpenPatient(ctx, s.cfg.DatabaseURL, 2)
	if err != nil {
		return nil, err
	}
	defer closeDB()
	d := &doctor.Doctor{DB: db, Objects: s.objects, Index: s.notifier.Index, Others: []doctor.Examiner{s.objects}}
	if s.redis != nil {
		d.Others = append(d.Others, s.redisExaminer())
	}
	if s.moderation != nil {
		d.Others = append(d.Others, s.moderation)
	}
	return d.Examine(ctx, doctor.Checkup{Progress: progress})
}

// examinedStore is an object store that says how it is.
type examinedStore interface {
	doctor.ExaminedObjects
	doctor.Examiner
}

// examinedObjects opens the object store. A store that cannot be opened is a finding.
func examinedObjects(ctx context.Context, cfg settings.Config) (examinedStore, func()) {
	store, err := cfg.Objects.Open(ctx, blob.OneKey(make([]byte, 32)), nil, nil) // the doctor gives no links away
	if err != nil {
		return awayObjects{err}, func() {}
	}
	return store, func() { store.Close() }
}

// awayObjects is an object store that cannot be opened.
type awayObjects struct{ err error }

func (a awayObjects) Stat(context.Context, string) (jobs.Object, error)          { return jobs.Object{}, a.err }
func (a awayObjects) Open(context.Context, string, int64) (io.ReadCloser, error) { return nil, a.err }
func (a awayObjects) Put(context.Context, string, []byte) error                  { return a.err }
func (a awayObjects) Delete(context.Context, string) error                       { return a.err }

// Examine finds nothing more than the probe of the store does.
func (a awayObjects) Examine(context.Context) []doctor.Finding { return nil }

var levels = []struct {
	level doctor.Level
	word  string
	color output.Color
}{
	{doctor.LevelOK, "ok", output.Green},
	{doctor.LevelAdvice, "advice", output.Yellow},
	{doctor.LevelUnknown, "unknown", output.Magenta},
	{doctor.LevelBroken, "broken", output.Red},
}

// printFindings prints the findings and a summary. The worst finding comes last, next to
// the summary. Passed checks are only counted, unless verbose is set.
func printFindings(out io.Writer, found []doctor.Finding, verbose bool) error {
	screen := output.ScreenOf(out)
	var page strings.Builder
	counts := map[doctor.Level]int{}
	gap := "" // between findings and the summary
	for _, l := range levels {
		for _, f := range found {
			if f.Level != l.level {
				continue
			}
			counts[l.level]++
			if l.level != doctor.LevelOK || verbose {
				fmt.Fprintln(&page, finding(f, screen.Paint(l.color, fmt.Sprintf("%-8s", l.word))))
				gap = "\n"
			}
		}
	}
	var parts []string
	for _, l := range levels {
		if n := counts[l.level]; n > 0 || l.level == doctor.LevelOK {
			parts = append(parts, fmt.Sprintf("%d %s", n, l.word))
		}
	}
	fmt.Fprintf(&page, "%s%d checks: %s.", gap, len(found), strings.Join(parts, ", "))
	if !verbose && counts[doctor.LevelOK] > 0 {
		page.WriteString(" --verbose shows those that passed, too.")
	}
	_, err := fmt.Fprintln(screen, page.String())
	return err
}

func finding(f doctor.Finding, level string) string {
	if f.Level == doctor.LevelOK {
		return fmt.Sprintf("%s %-19s %s", level, f.Check, f.Holds)
	}
	text := fmt.Sprintf("%s %-19s expected: %s", level, f.Check, f.Holds)
	line := func(what, said string) {
		if said != "" {
			text += fmt.Sprintf("\n         %-6s %s", what, output.Clean(said))
		}
	}
	line("Found", f.Found)
	for _, id := range f.IDs {
		line("", id)
	}
	if more := f.Count - len(f.IDs); more > 0 && len(f.IDs) > 0 {
		line("", fmt.Sprintf("and %d more", more))
	}
	line("Why", f.Matters)
	line("Fix", f.Fix)
	return text
}

// stores are the addresses of the stores of a running `up`.
type stores struct {
	DatabaseURL  string `json:"databaseUrl"`
	RedisURL     string `json:"redisUrl"`
	Store        string `json:"store"`
	Checkpoints  string `json:"checkpoints"`
	EmulatorHost string `json:"emulatorHost"`
	AccessKey    string `json:"accessKey"`
	SecretKey    string `json:"secretKey"`
}

const storesFile = "stores.json"

func writeStores(c settings.Config, data string) error {
	return credentials.WritePrivate(filepath.Join(data, storesFile), stores{
		DatabaseURL: c.DatabaseURL, RedisURL: c.RedisURL, Store: c.Objects.Places.Place.String(), Checkpoints: c.Objects.Checkpoints,
		EmulatorHost: c.Objects.EmulatorHost, AccessKey: c.Objects.AccessKey, SecretKey: c.Objects.SecretKey,
	})
}

// findStores returns the configuration from the environment. Stores that it does not name
// are those of the `up` that runs on the data folder.
func findStores(data string) (settings.Config, error) {
	cfg := settings.Read()
	if err := cfg.Check(); err != nil {
		return cfg, err
	}
	if cfg.DatabaseURL != "" && cfg.RedisURL != "" && cfg.Objects.Named() {
		return cfg, nil
	}
	path := filepath.Join(data, storesFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, fmt.Errorf(
			"no stores are configured: start Reelay with `reelay up`, or set DATABASE_URL, REDIS_URL and REELAY_STORE (there is no %s)", path,
		)
	}
	if err != nil {
		return cfg, err
	}
	var s stores
	if err := json.Unmarshal(text, &s); err != nil {
		return cfg, fmt.Errorf("%s was not written by `reelay up`: %w; restart it", path, err)
	}
	cfg.DatabaseURL, cfg.RedisURL = input.First(cfg.DatabaseURL, s.DatabaseURL), input.First(cfg.RedisURL, s.RedisURL)
	if !cfg.Objects.Named() {
		cfg.Objects = settings.Objects{Store: s.Store, Checkpoints: s.Checkpoints, EmulatorHost: s.EmulatorHost, AccessKey: s.AccessKey,
			SecretKey: s.SecretKey}
	}
	return cfg, cfg.Check()
}

package servers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models"
	"github.com/spf13/cobra"
	"github.com/uptrace/bun"
)

// restored is what a restore did.
type restored struct {
	Backup backup `json:"backup"`
	// Migrated are the steps of the schema that the backup lacked.
	Migrated []string `json:"migrated"`
	// Lost are the objects that rows of the backup name, but that the bucket does not have any more.
	Lost []string `json:"lost"`
}

// RestoreCommand returns `reelay restore`.
func RestoreCommand() *cobra.Command {
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "restore FOLDER",
		Short: "Restore the database from a backup, beside the objects as they are",
		Long: "Restores a backup of `reelay backup` into the empty database at DATABASE_URL, brings its schema up to date, and removes\n" +
			"pointers to objects that were deleted since. All leases and schedules are halted then: look at what the backup lacks,\n" +
			"and end the halts with `reelay resume all`. Stop api and control before. If it is interrupted, run it again: it continues.\n\n" +
			"Needs DATABASE_URL, REELAY_STORE and REELAY_SECRETS_FILE of the installation. See docs/operators/backup.md.",
		Example: "  DATABASE_URL=postgres://…/reelay reelay restore /var/backups/reelay/2026-12-01",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := settings.Read()
			if cfg.RedisURL == "" {
				cfg.RedisURL = "redis://127.0.0.1" // it is not used
			}
			if err := cfg.Need(); err != nil {
				return err
			}
			done, err := restore(cmd.Context(), cfg, args[0], cmd.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			if asJSON {
				return document.Print(output.ScreenOf(cmd.OutOrStdout()), done, nil)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The database is as of %s. %d objects that it names are gone.\n"+
				"All leases and schedules are halted. Start api and control, look, and then run `reelay resume all`.\n",
				done.Backup.At.Format(time.RFC3339), len(done.Lost))
			return err
		},
	}
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

var errNotEmpty = errors.New("the database at DATABASE_URL is not empty: make a new one (createdb), so that nothing is overwritten")

// readBackup reads the description of a backup and compares its files with it.
func readBackup(folder string) (*backup, error) {
	text, err := os.ReadFile(filepath.Join(folder, backupFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("it is no backup: it has no %s", backupFile)
	}
	if err != nil {
		return nil, err
	}
	made := &backup{}
	if err := json.Unmarshal(text, made); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", backupFile, err)
	}
	for _, name := range []string{databaseFile, objectsFile} {
		sum, err := hashFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if sum != made.SHA256[name] {
			return nil, fmt.Errorf("%s is damaged: its SHA-256 is %s, not %s", name, sum, made.SHA256[name])
		}
	}
	return made, nil
}

func restore(ctx context.Context, cfg settings.Config, folder string, progress io.Writer) (*restored, error) {
	made, err := readBackup(folder)
	if err != nil {
		return nil, err
	}
	done := &restored{Backup: *made, Lost: []string{}, Migrated: []string{}}
	var begun bool
	err = openOnce(ctx, cfg.DatabaseURL, func(db *bun.DB) (err error) {
		begun, err = made.begun(ctx, db)
		return err
	})
	if err != nil {
		return nil, err
	}
	if begun {
		fmt.Fprintln(progress, "going on with a restore that did not end")
	} else {
		fmt.Fprintln(progress, "restoring the database")
		if err := made.load(ctx, cfg.DatabaseURL, filepath.Join(folder, databaseFile)); err != nil {
			return nil, err
		}
	}
	return done, openOnce(ctx, cfg.DatabaseURL, func(db *bun.DB) error {
		if _, unknown, err := migrations.Compare(ctx, db); err != nil || len(unknown) > 0 {
			return errors.Join(fmt.Errorf("the backup is of a newer Reelay (%s): its schema has steps that this one does not know: %v",
				made.Version, unknown), err)
		}
		if steps, err := migrate(ctx, cfg.DatabaseURL); err != nil {
			return err
		} else {
			done.Migrated = append(done.Migrated, steps...)
		}
		if err := done.settle(ctx, cfg, db, progress); err != nil {
			return err
		}
		reason := "The database was restored as of " + made.At.Format(time.RFC3339) + "."
		_, err := db.NewRaw("UPDATE halts SET reason = ? WHERE halted_by = ?", reason, restorer).Exec(ctx)
		if err != nil {
			return fmt.Errorf("say why leases and schedules are halted: %w", err)
		}
		return nil
	})
}

// restorer is recorded as the caller that halted the leases and schedules of a restored database.
const restorer = "reelay restore"

// unfinished is the reason of the halts while a restore of a backup has not ended.
func (b *backup) unfinished() string {
	return "A restore of the backup of " + b.At.UTC().Format(time.RFC3339Nano) + " did not end. Run `reelay restore` with its folder again."
}

// begun reports whether a database has the contents of the backup already, since a restore of it did not end. It
// returns errNotEmpty if the database has other tables.
func (b *backup) begun(ctx context.Context, db *bun.DB) (bool, error) {
	var tables, halts bool
	err := db.NewRaw(`SELECT EXISTS (SELECT FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace),
		to_regclass('public.halts') IS NOT NULL`).Scan(ctx, &tables, &halts)
	if err != nil || !tables {
		return false, err
	}
	var reasons []string
	if halts {
		if err := db.NewRaw("SELECT DISTINCT reason FROM halts WHERE halted_by = ?", restorer).Scan(ctx, &reasons); err != nil {
			return false, err
		}
	}
	switch {
	case slices.Contains(reasons, b.unfinished()):
		return true, nil
	case len(reasons) > 0:
		return false, fmt.Errorf("%w. %s", errNotEmpty, strings.Join(reasons, " "))
	}
	return false, errNotEmpty
}

// halt is the statements that halt all that can be halted, whatever the backup says of it.
func (b *backup) halt() string {
	statements := "RESET search_path; -- which the dump has emptied, but triggers need\nDELETE FROM halts;\n"
	for _, what := range models.HaltTargets {
		statements += fmt.Sprintf("INSERT INTO halts (what, halted_by, reason) VALUES ('%s', '%s', '%s');\n", what, restorer, b.unfinished())
	}
	return statements
}

// load restores a dump, and halts leases and schedules in the same transaction: at no time can a process use what
// was restored without the halts. If this process is killed, psql meets the end of its input and commits nothing.
func (b *backup) load(ctx context.Context, databaseURL, dump string) error {
	dumped, err := newPostgres(ctx, "pg_restore", "--no-owner", "--no-privileges", "--file=-", dump)
	if err != nil {
		return err
	}
	into, err := newPostgresOn(ctx, databaseURL, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output="+os.DevNull)
	if err != nil {
		return err
	}
	input, err := into.StdinPipe()
	if err != nil {
		return err
	}
	dumped.Stdout = input
	if err := into.Start(); err != nil {
		return into.explain(err)
	}
	_, err = io.WriteString(input, "BEGIN;\n")
	if err == nil {
		err = dumped.explain(dumped.Run())
	}
	if err == nil {
		_, err = io.WriteString(input, b.halt()+"COMMIT;\n")
	}
	// An error of psql is the cause of one that says that it reads no more.
	return cmp.Or(into.explain(errors.Join(input.Close(), into.Wait())), err)
}

// settle removes pointers to objects that are gone, and checks that the secrets open the prompts.
func (r *restored) settle(ctx context.Context, cfg settings.Config, db *bun.DB, progress io.Writer) error {
	secrets, err := seal.OpenFile(cfg.SecretsFile)
	if err != nil {
		return err
	}
	store, err := cfg.Objects.Open(ctx, blob.OneKey(make([]byte, 32)), nil, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := query.New(query.Sources{DB: db, Sealer: secrets.Sealer(), Objects: store}).Jobs.CheckKeyset(ctx); err != nil {
		return fmt.Errorf("REELAY_SECRETS_FILE is not the file of the backup; drop the database, and restore it with the right file: %w", err)
	}
	fmt.Fprintln(progress, "comparing rows with objects")
	for before := models.JobID(""); ; {
		pointed, next, err := models.ListPointedObjects(ctx, db, before, listPage)
		if err != nil {
			return fmt.Errorf("list the objects of jobs: %w", err)
		}
		for _, p := range pointed {
			_, err := store.Stat(ctx, p.ObjectKey)
			switch {
			case errors.Is(err, jobs.ErrNoObject):
				if err := forget(ctx, db, p); err != nil {
					return fmt.Errorf("forget the object %s: %w", p.ObjectKey, err)
				}
				r.Lost = append(r.Lost, p.ObjectKey)
			case err != nil:
				return err
			}
		}
		if next == "" {
			return nil
		}
		before = next
	}
}

// forget removes an artifact whose object is gone, as retention would.
func forget(ctx context.Context, db *bun.DB, p models.PointedObject) error {
	return jobs.InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		if _, err := models.LockJob(ctx, tx, p.JobID); err != nil {
			return err
		}
		return models.DoomArtifacts(ctx, tx, []models.ArtifactID{p.ArtifactID})
	})
}

package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
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
			"pointers to objects that were deleted since. It then halts all leases and schedules: look at what the backup lacks,\n" +
			"and go on with `reelay resume all`. Stop api and control before.\n\n" +
			"Needs DATABASE_URL, REELAY_STORE and REELAY_SECRETS_FILE of the installation. See docs/operators/backup.md.",
		Example: "  DATABASE_URL=postgres://…/reelay reelay restore /var/backups/reelay/2026-12-01",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := readConfig()
			if cfg.redisURL == "" {
				cfg.redisURL = "redis://127.0.0.1" // it is not used
			}
			if err := cfg.need(); err != nil {
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

func restore(ctx context.Context, cfg config, folder string, progress io.Writer) (*restored, error) {
	made, err := readBackup(folder)
	if err != nil {
		return nil, err
	}
	done := &restored{Backup: *made, Lost: []string{}, Migrated: []string{}}
	err = openOnce(ctx, cfg.databaseURL, func(db *bun.DB) error {
		tables, err := db.NewRaw("SELECT FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace LIMIT 1").Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := tables.RowsAffected(); err != nil || n > 0 {
			return errors.Join(errNotEmpty, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(progress, "restoring the database")
	err = runPostgres(ctx, "pg_restore", cfg.databaseURL, "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error",
		filepath.Join(folder, databaseFile))
	if err != nil {
		return nil, err
	}
	return done, openOnce(ctx, cfg.databaseURL, func(db *bun.DB) error {
		if _, unknown, err := migrations.Compare(ctx, db); err != nil || len(unknown) > 0 {
			return errors.Join(fmt.Errorf("the backup is of a newer Reelay (%s): its schema has steps that this one does not know: %v",
				made.Version, unknown), err)
		}
		if steps, err := migrate(ctx, cfg.databaseURL); err != nil {
			return err
		} else {
			done.Migrated = append(done.Migrated, steps...)
		}
		reason := "The database was restored as of " + made.At.Format(time.RFC3339) + "."
		if err := models.InsertHalts(ctx, db, models.HaltTargets, "reelay restore", reason); err != nil {
			return fmt.Errorf("halt leases and schedules: %w", err)
		}
		return done.settle(ctx, cfg, db, progress)
	})
}

// settle removes pointers to objects that are gone, and checks that the secrets open the prompts.
func (r *restored) settle(ctx context.Context, cfg config, db *bun.DB, progress io.Writer) error {
	secrets, err := seal.OpenFile(cfg.secretsFile)
	if err != nil {
		return err
	}
	store, err := cfg.objects.open(ctx, blob.OneKey(make([]byte, 32)), nil)
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

package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/spf13/cobra"
)

// MigrateCommand returns `reelay migrate`.
func MigrateCommand() *cobra.Command {
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schema and the models that come with Reelay up to date",
		Long: "Brings the schema of the database at DATABASE_URL, and the models that come with Reelay, up to date.\n" +
			"Steps only go forward; any number of processes may run this at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := settings.Read()
			if cfg.DatabaseURL == "" {
				return errors.New("DATABASE_URL is not set: it must be postgres://user:password@host:5432/name")
			}
			if err := cfg.Check(); err != nil {
				return err
			}
			steps, err := migrate(cmd.Context(), cfg.DatabaseURL)
			if err != nil {
				return err
			}
			if asJSON {
				return document.Print(output.ScreenOf(cmd.OutOrStdout()), map[string]any{"applied": append([]string{}, steps...)}, nil)
			}
			if len(steps) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "The schema is up to date.")
			}
			for _, step := range steps {
				fmt.Fprintln(cmd.OutOrStdout(), "applied", step)
			}
			return nil
		},
	}
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

// migrate brings the schema and the models that come with Reelay up to date, and returns the
// migrations that it applied.
func migrate(ctx context.Context, databaseURL string) ([]string, error) {
	db, done, err := postgres.OpenPatient(ctx, databaseURL, 4)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := postgres.Writable(ctx, db); postgres.IsStandby(err) {
		slog.WarnContext(ctx, "PostgreSQL is a standby: the region of the primary brings the schema up to date")
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	steps, err := migrations.Run(ctx, db)
	if err != nil {
		return nil, err
	}
	shipped, err := catalogue.Shipped()
	if err != nil {
		return nil, err
	}
	r := &registry.Registry{DB: db, Catalogue: catalogue.Of(catalogue.New())}
	return steps, r.Seed(ctx, shipped, capacity.OriginShipped)
}

package servers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/postgres"
	"github.com/spf13/cobra"
	"github.com/uptrace/bun"
)

// Files of a backup.
const (
	backupFile   = "backup.json"
	databaseFile = "database.dump"
	objectsFile  = "objects.jsonl"
)

// backup describes a backup.
type backup struct {
	// Version is that of the Reelay that wrote it.
	Version string `json:"version"`
	// At is the time at which the dump began, by PostgreSQL's clock. The backup has what was committed then.
	At time.Time `json:"at"`
	// Store is where the objects are.
	Store string `json:"store"`
	// Objects and Bytes are what is listed of them.
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// SHA256 is of each other file.
	SHA256 map[string]string `json:"sha256"`
}

// listedObject is a line of objectsFile.
type listedObject struct {
	Key       string    `json:"key"`
	SizeBytes int64     `json:"sizeBytes"`
	CreatedAt time.Time `json:"createdAt"`
}

// BackupCommand returns `reelay backup`.
func BackupCommand() *cobra.Command {
	var data string
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Back up the database, and list the objects",
		Long: "Writes a new folder with a dump of the database (pg_dump) and a list of the objects in the bucket. Reelay may run\n" +
			"meanwhile. The objects themselves stay in the bucket, and the secrets file is not in it: back that up apart, once.\n\n" +
			"It finds the stores as `reelay doctor` does. See docs/operators/backup.md.",
		Example: "  reelay backup /var/backups/reelay/$(date +%F)",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := findStores(data)
			if err != nil {
				return err
			}
			made, err := writeBackup(cmd.Context(), cfg, args[0], cmd.ErrOrStderr())
			if err != nil {
				return errors.Join(fmt.Errorf("back up to %s: %w", args[0], err), os.RemoveAll(args[0]+partly))
			}
			if asJSON {
				return document.Print(output.ScreenOf(cmd.OutOrStdout()), made, nil)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has the database as of %s, and a list of %d objects.\n"+
				"It cannot be read without the secrets file: keep that apart, and as safe.\n", args[0], made.At.Format(time.RFC3339), made.Objects)
			return err
		},
	}
	cmd.Flags().StringVar(&data, "data", ".reelay", "data folder of the running 'reelay up'")
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

// partly is the end of the name of a backup that is not whole.
const partly = ".part"

// writeBackup writes a backup into a new folder, which has its name only once it is whole.
func writeBackup(ctx context.Context, cfg settings.Config, folder string, progress io.Writer) (*backup, error) {
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(errors.New("it exists: name a new folder"), err)
	}
	part := folder + partly
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(filepath.Dir(part), 0o755), os.Mkdir(part, 0o700)); err != nil {
		return nil, err
	}
	made := &backup{Version: version.Current().String(), Store: cfg.Objects.Places.Place.String(), SHA256: map[string]string{}}
	err := openOnce(ctx, cfg.DatabaseURL, func(db *bun.DB) (err error) {
		made.At, err = postgres.Now(ctx, db)
		return err
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(progress, "dumping the database")
	dump, err := newPostgresOn(ctx, cfg.DatabaseURL, "pg_dump", "--format=custom", "--no-owner", "--no-privileges",
		"--file="+filepath.Join(part, databaseFile))
	if err != nil {
		return nil, err
	}
	if err := dump.explain(dump.Run()); err != nil {
		return nil, err
	}
	store, err := cfg.Objects.Open(ctx, blob.OneKey(make([]byte, 32)), nil, nil) // a backup gives no links away
	if err != nil {
		return nil, err
	}
	defer store.Close()
	// After the dump, so that the list has all objects that rows in it name, but those deleted meanwhile.
	if err := made.listObjects(ctx, store, filepath.Join(part, objectsFile), progress); err != nil {
		return nil, err
	}
	for _, name := range []string{databaseFile, objectsFile} {
		if made.SHA256[name], err = hashFile(filepath.Join(part, name)); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(part, backupFile), append(text, '\n'), 0o600); err != nil {
		return nil, err
	}
	return made, os.Rename(part, folder)
}

// listPage is how many objects are listed at once.
const listPage = 999

func (m *backup) listObjects(ctx context.Context, store jobs.Objects, path string, progress io.Writer) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewWriter(file)
	encoder := json.NewEncoder(lines)
	for after := ""; ; {
		page, err := store.List(ctx, after, listPage)
		if err != nil {
			return err
		}
		for _, o := range page {
			if err := encoder.Encode(listedObject{o.Key, o.SizeBytes, o.CreatedAt.UTC()}); err != nil {
				return err
			}
			m.Objects, m.Bytes = m.Objects+1, m.Bytes+o.SizeBytes
		}
		if len(page) < listPage {
			break
		}
		after = page[len(page)-1].Key
		fmt.Fprintf(progress, "listing objects: %d\n", m.Objects)
	}
	return errors.Join(lines.Flush(), file.Sync())
}

func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

func openOnce(ctx context.Context, databaseURL string, do func(*bun.DB) error) error {
	db, done, err := postgres.OpenPatient(ctx, databaseURL, 2)
	if err != nil {
		return err
	}
	defer done()
	return do(db)
}

// postgresProgram is a call of a program of PostgreSQL.
type postgresProgram struct {
	*exec.Cmd
	name string
	said bytes.Buffer
}

// newPostgres returns a call of a program of PostgreSQL.
func newPostgres(ctx context.Context, name string, args ...string) (*postgresProgram, error) {
	path, err := localstack.PostgresProgram(name)
	if err != nil {
		return nil, err
	}
	p := &postgresProgram{Cmd: exec.CommandContext(ctx, path, args...), name: name}
	p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
	p.WaitDelay = 10 * time.Second
	p.Stderr = &p.said
	return p, nil
}

// newPostgresOn is newPostgres for a program that connects to a database. The password is passed in the
// environment: a command line shows in the list of processes.
func newPostgresOn(ctx context.Context, databaseURL, name string, args ...string) (*postgresProgram, error) {
	at, environment, err := libpq(databaseURL)
	if err != nil {
		return nil, err
	}
	p, err := newPostgres(ctx, name, append(args, "--dbname="+at)...)
	if err != nil {
		return nil, err
	}
	p.Env = append(os.Environ(), environment...)
	return p, nil
}

// explain adds what the program said to an error of Run or Wait.
func (p *postgresProgram) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", p.name, err, strings.TrimSpace(p.said.String()))
}

// ofLibpq are the parameters of a URL that PostgreSQL's programs know. The others are of Reelay's library.
var ofLibpq = []string{
	"host", "hostaddr", "port", "user", "dbname", "passfile", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslnegotiation",
	"connect_timeout", "target_session_attrs", "application_name", "service", "gssencmode", "channel_binding",
}

// libpq returns a URL without its password, and the variables with it.
func libpq(databaseURL string) (at string, environment []string, err error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", nil, errors.New("DATABASE_URL is malformed") // it may contain a password
	}
	query := u.Query()
	for name := range query {
		if !slices.Contains(ofLibpq, name) {
			query.Del(name)
		}
	}
	u.RawQuery = query.Encode()
	if password, ok := u.User.Password(); ok {
		environment = append(environment, "PGPASSWORD="+password)
		u.User = url.User(u.User.Username())
	}
	return u.String(), environment, nil
}

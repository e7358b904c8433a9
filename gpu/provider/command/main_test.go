package command_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

var _ fleet.Preemptor = (*command.Provider)(nil)

// TestMain sets what programs inherit: secrets that they must not see, and a PATH that begins
// with imitations of docker and others.
func TestMain(m *testing.M) {
	bin, err := filepath.Abs("testdata/bin")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		"REELAY_SECRETS_FILE": "hunter2", "DATABASE_URL": "hunter2", "REDIS_URL": "hunter2", "STORAGE_EMULATOR_HOST": "hunter2",
		"PGPASSWORD":  "hunter2",
		"CLOUD_TOKEN": "mine", "PATH": bin + ":" + os.Getenv("PATH"), "AGENT_IMAGE": "registry.example/agent:1",
		"FAKE_CLOUD": "machines", "FAKE_CLOUD_AGENT": "./agent",
	} {
		os.Setenv(name, value)
	}
	os.Unsetenv("PYTHONUNBUFFERED") // control does not have it, and it hides answers that are not flushed
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	testrun.Main(m.Run)
}

// logged is the log of all tests.
var logged lockedBuffer

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// about returns the lines of the log that name a program.
func (b *lockedBuffer) about(program string) (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(b.text.Bytes()) {
		if bytes.Contains(line, []byte("program="+program+" ")) {
			lines = append(lines, string(line))
		}
	}
	return lines
}

// cloud is a provider with one program.
type cloud struct {
	*command.Provider
	folder string // of the program, which can write there
	key    string
	pool   *capacity.Pool
}

// setup makes a provider whose program is a shell script.
func setup(t *testing.T, script string) *cloud {
	t.Helper()
	c := setupIn(t, t.TempDir(), "cloud")
	testrun.WriteProgram(t, filepath.Join(c.folder, "cloud"), "#!/bin/sh\n"+script+"\n")
	return c
}

// setupIn makes a provider of the programs in a folder, and a pool that uses one of them.
func setupIn(t *testing.T, folder, program string) *cloud {
	t.Helper()
	key, _ := secrets.New(secrets.KeyPrefix)
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
	c := &cloud{folder: folder, key: key}
	c.Provider = command.New(command.Config{Folder: folder, Enrolment: fleet.Enrolment{Endpoint: "https://reelay.example", KeyFile: file}})
	c.pool = &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "spot", Provider: command.Name, Region: "eu-1", Zones: []string{"eu-1a"}, GPUType: "L4", MachineType: "big",
		CapacityClass: models.CapacitySpot,
		Models:        []string{"testcard", "other"},
		Settings:      []byte(`{"program": "` + program + `", "options": {"size": 2}, "timeoutSeconds": 60}`),
	}}
	return c
}

func (c *cloud) create(t *testing.T, ids ...string) []fleet.Created {
	t.Helper()
	all := c.Create(t.Context(), c.pool, "request-1", ids)
	require.Len(t, all, len(ids))
	for i, id := range ids {
		require.Equal(t, id, all[i].ID)
	}
	return all
}

func (c *cloud) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder, file))
	require.NoError(t, err)
	return string(text)
}

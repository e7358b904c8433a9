package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// unpack returns the files of an archive, by the name without the folder.
func unpack(t *testing.T, path string) map[string]string {
	opened, err := os.Open(path)
	require.NoError(t, err)
	defer opened.Close()
	unzipped, err := gzip.NewReader(opened)
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}

// secretsOf returns everything that a stack keeps secret.
func secretsOf(t *testing.T, s *stack) []string {
	secrets := []string{s.keys.AdminKey, s.keys.OperatorKey, s.keys.ClientKey, s.keys.WorkerKey}
	for _, name := range []string{"secrets.json", "stores.json"} {
		text, err := os.ReadFile(filepath.Join(s.data, name))
		require.NoError(t, err)
		var values map[string]any
		require.NoError(t, json.Unmarshal(text, &values))
		for key, value := range values {
			secret, ok := value.(string)
			if u, err := url.Parse(secret); ok && err == nil && u.User != nil {
				secret, _ = u.User.Password()
			} else if ok && strings.Contains(secret, "://") {
				continue // without a password
			}
			if ok && len(secret) > 8 && key != "store" {
				secrets = append(secrets, secret)
			}
		}
		if keyset, ok := values["keyset"].(map[string]any); ok {
			for _, key := range keyset["key"].([]any) {
				secrets = append(secrets, key.(map[string]any)["keyData"].(map[string]any)["value"].(string))
			}
		}
	}
	return secrets
}

func TestSupportBundle(t *testing.T) {
	t.Parallel()

	s := common(t)
	hook, err := s.client(t).CreateWebhookEndpoint(t.Context(), "http://127.0.0.1:9999/hook?token=hunter2", client.WebhookFormatStandard, nil)
	require.NoError(t, err)
	id := submit(t, s.client(t), "the unspoken prompt", 2, 0)
	until(t, s.client(t), id, completed)
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	run := testrun.Command(t, reelay, "support-bundle", path, "--data", s.data)

	out, err := run.CombinedOutput()

	require.NoError(t, err, string(out))
	files := unpack(t, path)
	for _, name := range []string{
		"version.json", "settings.json", "doctor.json", "system.json", "queues.json", "pools.json", "workers.json", "attention.json",
		"alerts.json",
		"dead_letters.json", "changes.json", "metrics.txt",
	} {
		require.Contains(t, files, name, files["errors.txt"])
	}
	require.Empty(t, files["errors.txt"])
	require.Contains(t, files["metrics.txt"], "reelay_")
	require.Contains(t, files["doctor.json"], `"findings"`)
	require.Contains(t, files["system.json"], "processes")
	var logs int
	for name := range files {
		if strings.HasPrefix(name, "logs/") {
			logs++
		}
	}
	require.Positive(t, logs)
	secrets := append(secretsOf(t, s), hook.Secret, "hunter2", "the unspoken prompt")
	require.GreaterOrEqual(t, len(secrets), 10)
	for name, text := range files {
		for _, secret := range secrets {
			require.NotContains(t, text, secret, name)
		}
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again, err := testrun.Command(t, reelay, "support-bundle", path, "--data", s.data).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(again), "file exists")
}

func TestSupportBundle_SaysWhatItCannotReach(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	out, err := testrun.Command(t, reelay, "support-bundle", path, "--data", t.TempDir(), "--json").Output()

	require.NoError(t, err)
	var said struct {
		File   string
		Files  []string
		Errors []string
	}
	require.NoError(t, json.Unmarshal(out, &said))
	require.Equal(t, path, said.File)
	require.NotEmpty(t, said.Errors)
	files := unpack(t, path)
	require.Contains(t, files["errors.txt"], "the API: ")
	require.Contains(t, files["errors.txt"], "no stores are configured")
	require.Contains(t, files, "version.json")
}

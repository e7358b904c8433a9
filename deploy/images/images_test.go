package images

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func dockerfiles(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.Dockerfile")
	require.NoError(t, err)
	require.Len(t, all, 3)
	return all
}

func TestDockerfiles(t *testing.T) {
	t.Parallel()

	for _, file := range dockerfiles(t) {
		t.Run("RunAProgramWithoutRightsIn "+file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)

			for _, line := range []string{
				`(?m)^ARG BASE=\S+:\S+$`, `(?m)^FROM \$\{BASE\}$`, `(?m)^USER 65532:65532$`, `(?m)^STOPSIGNAL SIGTERM$`, `(?m)^EXPOSE \d+$`,
				`(?m)^HEALTHCHECK .* CMD \["/usr/bin/reelay(-agent)?", "healthcheck"\]$`, `(?m)^ENTRYPOINT \["/usr/bin/reelay(-agent)?"\]$`,
			} {
				require.Regexp(t, line, string(text))
			}
		})
	}

	t.Run("CopyOnlyWhatTheContextHas", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
		require.NoError(t, err)
		var allowed []string
		for _, match := range regexp.MustCompile(`(?m)^!(\S+)$`).FindAllStringSubmatch(string(text), -1) {
			allowed = append(allowed, strings.TrimSuffix(match[1], "/**"))
		}

		for _, file := range dockerfiles(t) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range regexp.MustCompile(`(?m)^COPY (.*) \S+$`).FindAllStringSubmatch(string(text), -1) {
				for source := range strings.FieldsSeq(match[1]) {
					if strings.HasPrefix(source, "--") {
						continue
					}
					source = strings.ReplaceAll(source, "${TARGETARCH}", "*")
					require.Contains(t, allowed, source, ".dockerignore leaves out what %s copies", file)
					if !strings.HasPrefix(source, "dist/") {
						_, err := os.Stat(filepath.Join(root, source))
						require.NoError(t, err)
					}
				}
			}
		}
	})

	t.Run("AreWhatHadolintAccepts", func(t *testing.T) {
		t.Parallel()
		hadolint, err := exec.LookPath("venv/bin/hadolint")
		if err != nil {
			t.Skip("`go tool task test:images` fetches hadolint")
		}

		said, err := exec.CommandContext(t.Context(), hadolint, dockerfiles(t)...).CombinedOutput()

		require.NoError(t, err, string(said))
		require.Empty(t, string(said))
	})
}

func TestBuild(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, args ...string) string {
		t.Helper()
		// A checkout without a release.
		checkout := filepath.Join(t.TempDir(), "deploy/images")
		require.NoError(t, os.MkdirAll(checkout, 0o755))
		for _, file := range append(dockerfiles(t), "build.sh") {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(checkout, file), text, 0o600))
		}
		said, err := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(checkout, "build.sh")}, args...)...).CombinedOutput()
		require.Error(t, err)
		return string(said)
	}

	t.Run("NeedsARelease", func(t *testing.T) {
		t.Parallel()

		require.Regexp(t, "^images: dist must have one release for linux/\\w+: run `go tool task release -- -only linux/\\w+`\n$", run(t, "reelay"))
	})

	t.Run("NeedsTheNameOfAnImage", func(t *testing.T) {
		t.Parallel()

		for _, args := range [][]string{nil, {"none"}} {
			require.Equal(t, "images: usage: build.sh (reelay | agent | agent-diffusers) [options of the builder]\n", run(t, args...))
		}
	})
}

// image is an image that was unpacked.
type image struct {
	root   string // folder with its files
	size   int64  // of them all
	config struct {
		User         string
		Entrypoint   []string
		Cmd          []string
		Env          []string
		Labels       map[string]string
		ExposedPorts map[string]struct{}
		StopSignal   string
		Healthcheck  struct{ Test []string }
	}
}

// command runs a program in dir, and returns what it prints.
func command(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", program, strings.Join(args, " "), said)
	return string(said)
}

// build builds an image on an empty base with the script of this folder, and unpacks it.
func build(t *testing.T, name string) *image {
	t.Helper()
	folder := t.TempDir()
	policy := filepath.Join(folder, "policy.json")
	require.NoError(t, os.WriteFile(policy, []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600))
	builder := []string{"buildah", "--root", filepath.Join(folder, "storage"), "--runroot", filepath.Join(folder, "run"),
		"--storage-driver", "vfs", "--signature-policy", policy}
	command(t, ".", []string{"REELAY_BUILDER=" + strings.Join(builder, " ")}, "sh", "build.sh", name,
		"--isolation", "chroot", "--build-arg", "BASE=scratch", "-t", "image:test")
	archive := filepath.Join(folder, "image.tar")
	command(t, ".", nil, builder[0], append(builder[1:], "push", "--quiet", "image:test", "docker-archive:"+archive)...)
	return unpack(t, archive)
}

// unpack unpacks an archive of Docker's format.
func unpack(t *testing.T, archive string) *image {
	t.Helper()
	files := t.TempDir()
	command(t, files, nil, "tar", "-xf", archive)
	var manifest []struct {
		Config string
		Layers []string
	}
	read(t, filepath.Join(files, "manifest.json"), &manifest)
	require.Len(t, manifest, 1)
	i := &image{root: t.TempDir()}
	require.NoError(t, os.Chmod(i.root, 0o755))
	document := struct{ Config any }{&i.config}
	read(t, filepath.Join(files, manifest[0].Config), &document)
	for _, layer := range manifest[0].Layers {
		command(t, i.root, nil, "tar", "-xf", filepath.Join(files, layer))
	}
	require.NoError(t, filepath.Walk(i.root, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			i.size += info.Size()
		}
		return err
	}))
	return i
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

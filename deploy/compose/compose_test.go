package compose

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// project is what the loader prints, as far as the tests read it.
type project struct {
	Services map[string]service
	Secrets  map[string]struct{ File string }
}

type service struct {
	Image       string
	User        string
	Command     []string
	Entrypoint  []string
	Environment map[string]string
	Profiles    []string
	Restart     string
	ReadOnly    bool     `json:"read_only"`
	CapDrop     []string `json:"cap_drop"`
	SecurityOpt []string `json:"security_opt"`
	MemLimit    string   `json:"mem_limit"`
	PidsLimit   int      `json:"pids_limit"`
	Ports       []struct {
		HostIP    string `json:"host_ip"`
		Published string
	}
	Secrets   []struct{ Source, Target string }
	Volumes   []struct{ Type, Source, Target string }
	DependsOn map[string]struct{ Condition string } `json:"depends_on"`

	HealthCheck *struct {
		Test    []string
		Disable bool
	}
	Deploy *struct{ Replicas *int }
}

// loader is the program of the folder of this name.
var loader string

func TestMain(m *testing.M) {
	testrun.Main(func() int {
		folder, err := os.MkdirTemp("", "loader-")
		if err == nil {
			loader = filepath.Join(folder, "loader")
			build := exec.Command("go", "-C", "loader", "build", "-o", loader, ".")
			build.Stderr = os.Stderr
			err = build.Run()
		}
		if err != nil {
			os.Stderr.WriteString("build the loader: " + err.Error() + "\n")
			return 1
		}
		return m.Run()
	})
}

// variables are those that the files need.
var variables = []string{"DATA_ADDRESS=10.0.0.1", "DATA_HOST=10.0.0.1", "REELAY_DOMAIN=reelay.example", "REELAY_TLS=you@reelay.example",
	"REELAY_AGENT_POOL=l4", "REELAY_AGENT_GPU_TYPE=L4"}

// load returns the project in a file.
func load(t *testing.T, file string, variables ...string) project {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), loader, file)
	cmd.Env = append(os.Environ(), variables...)
	text, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		require.NoError(t, err, string(failed.Stderr))
	}
	require.NoError(t, err)
	var p project
	require.NoError(t, json.Unmarshal(text, &p))
	return p
}

// files are all that people start, and the services whose ports are published.
var files = map[string][]string{
	"single.yaml":        {"proxy"},
	"three/data.yaml":    {"postgres", "redis", "objects"},
	"three/servers.yaml": {"proxy"},
	"three/gpu.yaml":     {},
}

func TestFiles(t *testing.T) {
	t.Parallel()

	for file, public := range files {
		t.Run("CloseWhatServicesDoNotNeed "+file, func(t *testing.T) {
			t.Parallel()

			for name, s := range load(t, file, variables...).Services {
				require.Regexp(t, `:v?\d+\.\d+\.\d+(-\w+)?$|:\d+\.\d+-bookworm$`, s.Image, name)
				require.True(t, s.ReadOnly, name)
				require.Equal(t, []string{"ALL"}, s.CapDrop, name)
				require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, name)
				require.NotEmpty(t, s.MemLimit, name)
				require.NotZero(t, s.PidsLimit, name)
				require.Equal(t, map[bool]string{true: "no", false: "unless-stopped"}[name == "migrate"], s.Restart, name)
				if !strings.HasPrefix(s.Image, "caddy:") {
					require.NotEmpty(t, s.User, name)
				}
				if !strings.HasPrefix(s.Image, "reelay") { // those have a health check of their own
					require.NotNil(t, s.HealthCheck, name)
				}
			}
		})

		t.Run("PublishOnlyWhatOthersCall "+file, func(t *testing.T) {
			t.Parallel()

			for name, s := range load(t, file, variables...).Services {
				if len(s.Ports) > 0 {
					require.Contains(t, public, name)
				}
				for _, port := range s.Ports {
					if name == "proxy" {
						require.Contains(t, []string{"80", "443"}, port.Published)
					} else {
						require.Equal(t, "10.0.0.1", port.HostIP, "only in the private network")
					}
				}
			}
		})

		t.Run("HaveOnlySecretsThatAreMade "+file, func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile("secrets.sh")
			require.NoError(t, err)

			p := load(t, file, variables...)
			used := map[string]bool{}
			for name, s := range p.Services {
				for _, secret := range s.Secrets {
					used[secret.Source] = true
				}
				for setting, value := range s.Environment {
					require.NotRegexp(t, `(?i)://[^/]*:[^/]*@`, value, "%s of %s has a password", setting, name)
				}
			}
			for name, secret := range p.Secrets {
				require.True(t, used[name], "no service uses %s", name)
				require.Equal(t, name, filepath.Base(secret.File))
				if name != "worker_key" { // the page makes it
					require.Contains(t, string(script), name)
				}
			}
			require.Len(t, p.Secrets, len(used))
		})

		t.Run("HaveSettingsThatAreDocumented "+file, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile("../../docs/operators/configuration.md")
			require.NoError(t, err)
			flags := agent.Command("test").Flags()

			for name, s := range load(t, file, variables...).Services {
				if !strings.HasPrefix(s.Image, "reelay") {
					continue
				}
				for setting := range s.Environment {
					if flag, ok := strings.CutPrefix(setting, "REELAY_AGENT_"); ok {
						require.NotNil(t, flags.Lookup(strings.ToLower(strings.ReplaceAll(flag, "_", "-"))), "%s of %s", setting, name)
						continue
					}
					require.Regexp(t, "`"+setting+"`", string(page), name)
				}
			}
		})
	}

	t.Run("SayWhichVariablesTheyNeed", func(t *testing.T) {
		t.Parallel()

		for file, want := range map[string]string{
			"three/data.yaml": "the address of this machine", "three/servers.yaml": "the address of the first machine", "three/gpu.yaml": "REELAY_",
		} {
			said, err := exec.CommandContext(t.Context(), loader, file).CombinedOutput()

			require.Error(t, err, file)
			require.Contains(t, string(said), want)
		}
	})

	t.Run("WaitForWhatTheyNeed", func(t *testing.T) {
		t.Parallel()

		p := load(t, "single.yaml", variables...)
		for _, name := range []string{"api-1", "api-2", "control-1", "control-2"} {
			require.Equal(t, "service_completed_successfully", p.Services[name].DependsOn["migrate"].Condition)
		}
		require.Equal(t, "service_healthy", p.Services["migrate"].DependsOn["postgres"].Condition)
		require.Equal(t, "service_healthy", p.Services["proxy"].DependsOn["api-1"].Condition)
	})

	t.Run("MountOnlyWhatExists", func(t *testing.T) {
		t.Parallel()

		for file := range files {
			for name, s := range load(t, file, variables...).Services {
				for _, volume := range s.Volumes {
					if volume.Type == "bind" {
						require.FileExists(t, volume.Source, name)
					}
				}
			}
		}
	})
}

func TestLoader(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ text, want string }{
		"AnUnknownKey":     {"services: {api: {image: 'a:1', imagez: b}}", "imagez"},
		"AMissingSecret":   {"services: {api: {image: 'a:1', secrets: [none]}}", "undefined secret none"},
		"AMissingService":  {"services: {api: {image: 'a:1', depends_on: [none]}}", `undefined service "none"`},
		"AMissingVolume":   {"services: {api: {image: 'a:1', volumes: ['none:/data']}}", "undefined volume none"},
		"AMissingVariable": {"services: {api: {image: 'a:${NONE:?is missing}'}}", "is missing"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "compose.yaml")
			require.NoError(t, os.WriteFile(file, []byte("name: test\n"+c.text), 0o600))

			said, err := exec.CommandContext(t.Context(), loader, file).CombinedOutput()

			require.Error(t, err)
			require.Contains(t, string(said), c.want)
		})
	}
}

// TestPrometheus checks the configuration of Prometheus, beside the rules that it names.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for from, to := range map[string]string{"config/prometheus.yml": "prometheus.yml", "../prometheus/rules.yml": "rules.yml"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, to), text, 0o600))
	}

	said, err := exec.CommandContext(t.Context(), "promtool", "check", "config", filepath.Join(folder, "prometheus.yml")).CombinedOutput()

	require.NoError(t, err, "promtool comes with go tool task setup:browser: %s", said)
	require.Regexp(t, regexp.MustCompile(`SUCCESS: .*prometheus.yml is valid`), string(said))
}

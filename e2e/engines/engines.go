// Package engines starts real engines for tests: ComfyUI, Cog, and the HTTP layers of vLLM-Omni and
// SGLang with stubs in place of their models. setup.sh installs them; a test that starts one is skipped
// unless the environment variable REELAY_ENGINES names their folder, as in `go tool task test:engines`.
package engines

import (
	"embed"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
)

//go:embed *.py cog_schema.json
var programs embed.FS

// Server is a running engine.
type Server struct {
	URL string
	Dir string // what the engine keeps: inputs, outputs, and its log server.log

	t       testing.TB
	health  string
	command func() *exec.Cmd
	running *exec.Cmd
}

// Folder returns the folder that setup.sh installed an engine into. It skips the test if REELAY_ENGINES
// is not set.
func Folder(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("REELAY_ENGINES")
	if root == "" {
		t.Skip("REELAY_ENGINES does not name a folder with real engines: `go tool task test:engines` installs and uses them")
	}
	folder := filepath.Join(root, name)
	if _, err := os.Stat(filepath.Join(folder, "fetched")); err != nil {
		t.Fatalf("%s is not installed in %s: sh e2e/engines/setup.sh %s installs it", name, root, name)
	}
	return folder
}

// StartComfyUI starts ComfyUI on the CPU, with the node SlowFrames, on a folder that keeps its outputs
// when it is started again.
func StartComfyUI(t testing.TB, dir string) *Server {
	t.Helper()
	folder, port := Folder(t, "comfyui"), testrun.FreePort(t)
	nodes, pages := filepath.Join(dir, "custom_nodes"), filepath.Join(dir, "web")
	write(t, nodes, "slow_frames.py")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		t.Fatal(err)
	}
	return start(t, dir, port, "/system_stats", func() *exec.Cmd {
		cmd := testrun.Command(t, python(folder), "main.py", "--cpu", "--listen", "127.0.0.1", "--port", port,
			"--base-directory", dir, "--front-end-root", pages, "--disable-all-custom-nodes",
			"--whitelist-custom-nodes", "slow_frames.py", "--disable-api-nodes",
			"--database-url", "sqlite:///"+filepath.Join(dir, "comfyui.db"))
		cmd.Dir = filepath.Join(folder, "source/_comfyui")
		return cmd
	})
}

// StartVLLMOmni starts the routes of vLLM-Omni, which store videos in dir.
func StartVLLMOmni(t testing.TB, dir string) *Server {
	t.Helper()
	return startRoutes(t, "vllm_omni", dir, "/health")
}

// StartSGLang starts the routes of SGLang Diffusion, which store videos in dir.
func StartSGLang(t testing.TB, dir string) *Server {
	t.Helper()
	return startRoutes(t, "sglang", dir, "/v1/models")
}

func startRoutes(t testing.TB, name, dir, health string) *Server {
	t.Helper()
	folder, port, scripts := Folder(t, name), testrun.FreePort(t), t.TempDir()
	write(t, scripts, name+"_server.py", "stubs.py", "film.py")
	return start(t, dir, port, health, func() *exec.Cmd {
		return testrun.Command(t, python(folder), filepath.Join(scripts, name+"_server.py"),
			filepath.Join(folder, "source"), dir, port)
	})
}

// StartCog starts Cog's server with the predictor of predict.py. It returns before the predictor's setup
// has ended. The server keeps nothing; dir is its working directory.
func StartCog(t testing.TB, dir string, env ...string) *Server {
	t.Helper()
	folder, port, scripts := Folder(t, "cog"), testrun.FreePort(t), t.TempDir()
	write(t, scripts, "predict.py", "film.py", "cog_schema.json")
	// Cog writes the schema into an image when it builds it.
	schema := filepath.Join(dir, ".cog/openapi_schema.json")
	if err := os.MkdirAll(filepath.Dir(schema), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(scripts, "cog_schema.json"), schema); err != nil {
		t.Fatal(err)
	}
	return start(t, dir, port, "/health-check", func() *exec.Cmd {
		cmd := testrun.Command(t, python(folder), "-m", "cog.server.http", "--host", "127.0.0.1")
		cmd.Dir = dir
		// The server starts its worker as the python that it finds in PATH.
		cmd.Env = append(os.Environ(), "PORT="+port, "PATH="+filepath.Join(folder, "venv/bin")+":"+os.Getenv("PATH"),
			"COG_PREDICT_TYPE_STUB="+filepath.Join(scripts, "predict.py")+":Predictor")
		cmd.Env = append(cmd.Env, env...)
		return cmd
	})
}

func python(folder string) string { return filepath.Join(folder, "venv/bin/python") }

// write puts some of the programs into a folder.
func write(t testing.TB, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := programs.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func start(t testing.TB, dir, port, health string, command func() *exec.Cmd) *Server {
	t.Helper()
	s := &Server{URL: "http://127.0.0.1:" + port, Dir: dir, t: t, health: health, command: command}
	s.start()
	return s
}

// start returns when the engine answers.
func (s *Server) start() {
	s.t.Helper()
	path := filepath.Join(s.Dir, "server.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.running = s.command()
	if s.running.Env == nil {
		s.running.Env = os.Environ()
	}
	s.running.Env = append(s.running.Env, "PYTHONDONTWRITEBYTECODE=1")
	s.running.Stdout, s.running.Stderr = log, log
	if err := s.running.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(ended)
	}(s.running)
	testrun.Eventually(s.t, s.URL+" answers", func() bool {
		select {
		case <-ended:
			text, _ := os.ReadFile(path)
			s.t.Fatalf("the engine ended at its start: %s", text[max(0, len(text)-4000):])
		default:
		}
		res, err := http.Get(s.URL + s.health)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// Kill ends the engine and its workers at once, as kill -9 does.
func (s *Server) Kill() {
	s.t.Helper()
	if err := s.running.Cancel(); err != nil && !errors.Is(err, os.ErrClosed) { // closed: it was killed before
		s.t.Fatal(err)
	}
	testrun.Eventually(s.t, s.URL+" is gone", func() bool {
		res, err := http.Get(s.URL + s.health)
		if err == nil {
			res.Body.Close()
		}
		return err != nil
	})
}

// Restart kills the engine and starts it again at the same address, on the same folder.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.start()
}

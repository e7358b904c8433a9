package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/e2e/engines"
	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

const (
	soakKillEvery = 30 * time.Second
	// soakCancels is how many jobs are cancelled while they render, unless the soak is a short one.
	soakCancels = 20
)

// soakJobs returns how many jobs a soak has: as REELAY_SOAK_JOBS says, or as usual.
func soakJobs(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv("REELAY_SOAK_JOBS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "REELAY_SOAK_JOBS")
	return n
}

// lift raises the limits of the customer's account to those of a soak.
func (s *stack) lift(t *testing.T) {
	t.Helper()
	viewer, err := s.client(t).Viewer(t.Context())
	require.NoError(t, err)
	_, err = s.dial(t, s.keys.AdminKey).UpdateAccount(t.Context(), viewer.Account.Id,
		client.AccountInput{MaxQueued: new(100_000), MaxRunning: new(100), SubmitsPerMinute: new(100_000)})
	require.NoError(t, err)
}

// slowFilm is a graph that renders for a moment on a processor, and saves an MP4 under a name.
func slowFilm(name string, seed, steps int) string {
	return fmt.Sprintf(`{
		"1": {"class_type": "SlowFrames", "inputs": {"frames": 24, "step_seconds": 0.15, "steps": %d, "seed": %d, "fail_at": -1}},
		"2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 24}},
		"3": {"class_type": "SaveVideo", "inputs": {"video": ["2", 0], "filename_prefix": %q, "format": "mp4", "codec": "h264"}}}`, steps, seed, name)
}

const (
	soakSteps   = 10 // a render of 1.5 s
	doomedSteps = 60 // of a job that will be cancelled
)

// TestSoakComfyUI renders jobs on two ComfyUI processes, of which one is killed every 30 s: first through
// Reelay, and then without it.
func TestSoakComfyUI(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	servers := []*engines.Server{engines.StartComfyUI(t, dirs[0]), engines.StartComfyUI(t, dirs[1])}
	n := soakJobs(t, 500)
	s := start(t, "--agents", "0", "--engine", servers[0].URL, "--engine", servers[1].URL, "--engine-kind", "comfyui")
	s.onEngine(t, "slow", "comfyui", `{inputs: {seed: 1.seed, steps: 1.steps}, output: "3", graph: `+slowFilm("video", 0, soakSteps)+`}`)
	soak := comfySoak{api: s.operator(t), servers: servers, doomed: map[string]bool{}}
	mine := s.client(t)
	s.lift(t)
	every := max(n/soakCancels, 3)
	var inputs []client.SubmitJobInput
	for i := range n {
		steps := soakSteps
		if i%every == 1 {
			steps = doomedSteps
		}
		params := json.RawMessage(fmt.Sprintf(`{"seed": %d, "steps": %d}`, i, steps))
		inputs = append(inputs, client.SubmitJobInput{Model: "slow", Params: &params})
	}
	begun := time.Now()
	for batch := range slices.Chunk(inputs, 100) {
		made, err := mine.SubmitJobs(t.Context(), batch)
		require.NoError(t, err)
		require.Zero(t, made.Rejected)
		for _, result := range made.Results {
			soak.doomed[result.Job.Id] = len(soak.ids)%every == 1
			soak.ids = append(soak.ids, result.Job.Id)
		}
	}

	watching := make(chan error, 1)
	go func() { watching <- soak.watch(t.Context(), mine) }()
	soak.kills = killEach(t, soakKillEvery, watching, servers)
	took := time.Since(begun)

	soak.check(t, mine, dirs)
	s.end()
	lost, unharmed := soakAlone(t, n)
	t.Logf(`%d jobs on two ComfyUI processes, one killed every %s

| | with Reelay | ComfyUI alone |
| --- | --- | --- |
| jobs | %d | %d |
| processes killed | %d | %d |
| lost | 0 | %d |
| took | %s | %s |
%s`, n, soakKillEvery, n, n, len(soak.kills), unharmed.kills, lost, took.Round(time.Second), unharmed.took.Round(time.Second), soak.report)
}

type comfySoak struct {
	api     *client.Client
	servers []*engines.Server
	ids     []string
	doomed  map[string]bool // the jobs to cancel

	// proofs are those of the cancels, by job.
	proofs map[string]proof
	kills  []kill
	report string
}

// proof is how an engine showed that it had stopped a cancelled job, and how long after the cancel.
type proof struct {
	how  string
	took time.Duration
}

// kill is the end of an engine's process, until it answers again.
type kill struct {
	server int
	at     time.Time
	down   time.Duration
}

// killEach kills one server after the other until done, and returns what done says as the test's failure.
func killEach(t *testing.T, every time.Duration, done <-chan error, servers []*engines.Server) (kills []kill) {
	t.Helper()
	clock := time.NewTicker(every)
	defer clock.Stop()
	for i := 0; ; i++ {
		select {
		case err := <-done:
			require.NoError(t, err)
			return kills
		case <-clock.C:
		}
		k := kill{server: i % len(servers), at: time.Now()}
		servers[k.server].Restart()
		k.down = time.Since(k.at)
		kills = append(kills, k)
		t.Logf("killed %s, which answered again after %s", servers[k.server].URL, k.down.Round(time.Millisecond))
	}
}

// watch cancels the doomed jobs while they render, until all jobs have ended.
func (s *comfySoak) watch(ctx context.Context, c *client.Client) error {
	s.proofs = map[string]proof{}
	for {
		running, err := c.Jobs(ctx, client.JobFilter{Status: []client.JobStatus{client.JobStatusRunning}}, 10, "")
		if err != nil {
			return err
		}
		for _, edge := range running.Edges {
			job := edge.Node.Job
			if _, cancelled := s.proofs[job.Id]; !cancelled && s.doomed[job.Id] && job.Progress.Step != nil && *job.Progress.Step > 2 {
				if err := s.cancel(ctx, c, job.Id); err != nil {
					return err
				}
			}
		}
		totals, err := c.JobTotals(ctx, client.JobFilter{})
		if err != nil {
			return err
		}
		ended := 0
		for _, count := range totals.Statuses {
			switch count.Status {
			case client.JobStatusCompleted, client.JobStatusCancelled, client.JobStatusFailed:
				ended += count.Jobs
			}
		}
		if ended == len(s.ids) {
			return nil
		}
		if err := sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// cancel cancels a job that an engine renders, and waits for the proof that the engine has stopped.
func (s *comfySoak) cancel(ctx context.Context, c *client.Client, id string) error {
	at := slices.IndexFunc(s.servers, func(server *engines.Server) bool { return renders(ctx, server, id) != "" })
	if at < 0 {
		return nil // its engine is down
	}
	server := s.servers[at]
	key := renders(ctx, server, id)
	begun := time.Now()
	if _, err := c.CancelJob(ctx, id); err != nil {
		return err
	}
	for time.Since(begun) < time.Minute {
		history, err := ask(ctx, server, "/history/"+key)
		switch {
		case err != nil:
			s.proofs[id] = proof{how: "its process was killed", took: time.Since(begun)}
		case bytes.Contains(history, []byte("execution_interrupted")):
			s.proofs[id] = proof{how: "execution_interrupted", took: time.Since(begun)}
		case renders(ctx, server, id) == "" && !bytes.Contains(history, []byte(`"success"`)):
			s.proofs[id] = proof{how: "the engine is idle", took: time.Since(begun)}
		default:
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		return nil
	}
	return fmt.Errorf("no proof that %s stopped the cancelled job %s", server.URL, id)
}

// renders returns the key under which an engine renders a job, or "".
func renders(ctx context.Context, server *engines.Server, id string) string {
	queue, err := ask(ctx, server, "/queue")
	if err != nil {
		return ""
	}
	for _, key := range keysOf(id) {
		if bytes.Contains(queue, []byte(key)) {
			return key
		}
	}
	return ""
}

func sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ask(ctx context.Context, server *engines.Server, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	return body.Bytes(), err
}

// keysOf returns the keys under which the runtime of engines starts a job, the first run's first.
func keysOf(id string) (keys []string) {
	namespace := uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/reelay/reelay#engine-work"))
	for run := range 12 {
		keys = append(keys, uuid.NewSHA1(namespace, []byte(fmt.Sprint(id, " ", run+1))).String())
	}
	return keys
}

// check compares what the customer has with what the engines did.
func (s *comfySoak) check(t *testing.T, c *client.Client, dirs []string) {
	t.Helper()
	runs, whole := map[string]int{}, map[string]bool{}
	rendered, broken := 0, 0
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "output", "runs.txt"))
		require.NoError(t, err)
		for key := range strings.FieldsSeq(string(text)) {
			runs[key]++
			rendered++
		}
		complete, partial := films(t, filepath.Join(dir, "output", "reelay"))
		broken += partial
		for _, key := range complete {
			require.False(t, whole[key], "%s has two complete files", key)
			whole[key] = true
		}
	}
	ended := make([]*client.JobHistory, len(s.ids))
	var asking errgroup.Group
	asking.SetLimit(4)
	for i, id := range s.ids {
		asking.Go(func() (err error) {
			ended[i], err = s.api.JobHistory(t.Context(), id)
			return err
		})
	}
	require.NoError(t, asking.Wait())
	var calm, hit, cancels []time.Duration
	hows := map[string]int{}
	var worst []string
	for i, job := range ended {
		id := s.ids[i]
		if proof, cancelled := s.proofs[id]; cancelled {
			assert.Equal(t, client.JobStatusCancelled, job.Status, id)
			hows[proof.how]++
			cancels = append(cancels, proof.took)
			continue
		}
		assert.Equal(t, client.JobStatusCompleted, job.Status, "%s: %v", id, job.FailureReason)
		completions, films := 0, 0
		for _, event := range job.Events.Edges {
			if event.Node.Type == client.JobEventTypeCompleted {
				completions++
			}
		}
		for _, artifact := range job.Artifacts {
			if artifact.Type == client.ArtifactTypeFinalVideo {
				films++
			}
		}
		assert.Equal(t, 1, completions, id)
		assert.Equal(t, 1, films, id)
		files, again := 0, false
		for _, key := range keysOf(id) {
			assert.LessOrEqual(t, runs[key], 1, "%s ran twice as %s", id, key)
			again = again || files > 0 && runs[key] > 0
			if whole[key] {
				files++
			}
		}
		assert.False(t, again, "%s was rendered again although its file was complete", id)
		assert.Equal(t, 1, files, "%s has that many complete files", id)
		if s.doomed[id] || job.StartedAt == nil || job.CompletedAt == nil {
			continue // its render is a longer one
		}
		took := job.CompletedAt.Sub(*job.StartedAt)
		if s.hit(job) {
			hit = append(hit, took)
			worst = append(worst, fmt.Sprintf("%6.2f s %s, %d attempts", took.Seconds(), id, len(job.Attempts)))
		} else {
			calm = append(calm, took)
		}
	}
	s.playable(t, c, ended)
	restarts := []time.Duration{}
	for _, k := range s.kills {
		restarts = append(restarts, k.down)
	}
	usual, restart := quantile(calm, 0.5), quantile(restarts, 0.5)
	added := make([]time.Duration, len(hit))
	for i, took := range hit {
		added[i] = took - usual
	}
	slices.Sort(worst)
	t.Logf("the jobs whose engine was killed:\n%s", strings.Join(worst, "\n"))
	s.report = fmt.Sprintf(`| a job, from its start to its end, p50 / p95, s | %.1f / %.1f | |
| a restart of the engine, p50 / most, s | %.1f / %.1f | |
| jobs whose engine was killed | %d | |
| what that added, p50 / p95 / most, s | %.1f / %.1f / %.1f | |
| renders begun; files that were complete; files cut off | %d; %d; %d | |
| cancelled while they rendered | %d | |
| from a cancel to its proof, p50 / most, s | %.2f / %.2f | |
| proofs | %v | |
`, usual.Seconds(), quantile(calm, 0.95).Seconds(), restart.Seconds(), quantile(restarts, 1).Seconds(), len(hit),
		quantile(added, 0.5).Seconds(), quantile(added, 0.95).Seconds(), quantile(added, 1).Seconds(),
		rendered, len(whole), broken, len(cancels), quantile(cancels, 0.5).Seconds(), quantile(cancels, 1).Seconds(), hows)
	t.Log("\n" + s.report)
	assert.LessOrEqual(t, quantile(added, 0.95), usual+quantile(restarts, 1), "the added wait is at most a render and a restart")
}

// hit reports whether the engine of a job was killed or down while the job ran on it.
func (s *comfySoak) hit(job *client.JobHistory) bool {
	return slices.ContainsFunc(job.Attempts, func(a client.Attempt) bool {
		return slices.ContainsFunc(s.kills, func(k kill) bool {
			host := engine.Instance(s.servers[k.server].URL)
			on := a.Worker != nil && a.Worker.Name != nil && strings.Contains(*a.Worker.Name, host)
			return on && a.StartedAt != nil && a.EndedAt != nil && a.StartedAt.Before(k.at.Add(k.down)) && a.EndedAt.After(k.at)
		})
	})
}

// playable downloads some of the results and checks that they are videos.
func (s *comfySoak) playable(t *testing.T, c *client.Client, ended []*client.JobHistory) {
	t.Helper()
	for i, job := range ended {
		if job.Result == nil || i%max(len(ended)/20, 1) != 0 {
			continue
		}
		path := filepath.Join(t.TempDir(), "film.mp4")
		require.NoError(t, c.Download(t.Context(), job.Result, path, nil))
		report, err := quality.Check(t.Context(), path, quality.Expect{AllowDark: true, AllowStill: true})
		require.NoError(t, err)
		require.Nil(t, report.Defect)
	}
}

// films returns the keys of the complete films in a folder, and how many files there are no film.
func films(t *testing.T, dir string) (keys []string, broken int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.mp4"))
	require.NoError(t, err)
	var probing errgroup.Group
	probing.SetLimit(2)
	var mu sync.Mutex
	for _, file := range files {
		probing.Go(func() error {
			out, err := testrun.Command(t, "ffprobe", "-v", "error", "-show_entries", "stream=nb_frames", "-of", "csv=p=0", file).Output()
			mu.Lock()
			defer mu.Unlock()
			if err != nil || strings.TrimSpace(string(out)) != "24" {
				broken++
				return nil
			}
			keys = append(keys, filepath.Base(file)[:len(uuid.Nil.String())])
			return nil
		})
	}
	require.NoError(t, probing.Wait())
	return keys, broken
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// alone is how ComfyUI fared without Reelay.
type alone struct {
	kills int
	took  time.Duration
}

// soakAlone queues as many renders in two ComfyUI processes, kills them in the same way, and returns how many
// renders have no file when the processes have nothing more to do.
func soakAlone(t *testing.T, n int) (lost int, _ alone) {
	t.Helper()
	dirs := []string{t.TempDir(), t.TempDir()}
	servers := []*engines.Server{engines.StartComfyUI(t, dirs[0]), engines.StartComfyUI(t, dirs[1])}
	begun := time.Now()
	for i := range n {
		id := uuid.NewString()
		body := fmt.Sprintf(`{"prompt_id": %q, "client_id": %q, "prompt": %s}`, id, id, slowFilm("reelay/"+id, i, soakSteps))
		response, err := http.Post(servers[i%2].URL+"/prompt", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	done := make(chan error, 1)
	go func() {
		for {
			idle := 0
			for _, server := range servers {
				if said, err := ask(t.Context(), server, "/prompt"); err == nil && bytes.Contains(said, []byte(`"queue_remaining": 0`)) {
					idle++
				}
			}
			if idle == len(servers) {
				done <- nil
				return
			}
			if err := sleep(t.Context(), 250*time.Millisecond); err != nil {
				done <- err
				return
			}
		}
	}()
	kills := killEach(t, soakKillEvery, done, servers)
	took, complete := time.Since(begun), 0
	for _, dir := range dirs {
		whole, _ := films(t, filepath.Join(dir, "output", "reelay"))
		complete += len(whole)
	}
	return n - complete, alone{len(kills), took}
}

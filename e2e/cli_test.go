package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// command runs the CLI against a stack, as a person on the same machine would.
func (s *stack) command(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	cmd := testrun.Command(t, reelay, append(args, "--data", s.data)...)
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// document runs a command that must succeed and decodes the JSON that it prints.
func (s *stack) document(t *testing.T, args ...string) map[string]any {
	t.Helper()
	out, errs, status := s.command(t, append(args, "--json")...)
	require.Zero(t, status, errs)
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &doc), out)
	return doc
}

func TestCLI(t *testing.T) {
	t.Parallel()

	t.Run("TurnsAPromptIntoAFile", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		video := filepath.Join(t.TempDir(), "video.mp4")
		_, errs, status := s.command(t, "submit", "--prompt", "a harbour at dawn", "--duration", "1", "--pace", "0", "--wait", "--output", video)
		require.Zero(t, status, errs)

		out, err := exec.Command("ffprobe", "-v", "error", "-count_packets", "-show_entries", "stream=codec_name,pix_fmt,nb_read_packets", "-of",
			"csv=p=0", video).Output()
		require.NoError(t, err)
		require.Equal(t, "h264,yuv420p,24", strings.TrimSpace(string(out)))
	})

	t.Run("ShowsListsWatchesCancelsAndDownloads", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		id := field(t, s.document(t, "submit", "--prompt", "a night train", "--duration", "1", "--pace", "0", "--idempotency-key", t.Name()),
			"id")
		again := field(t, s.document(t, "submit", "--prompt", "a night train", "--duration", "1", "--pace", "0", "--idempotency-key", t.Name()),
			"id")
		lines, errs, status := s.command(t, "watch", id, "--json")
		require.Zero(t, status, errs)
		job := s.document(t, "get", id)
		list, _, _ := s.command(t, "list", id, "--json") // of the jobs of all tests
		file := filepath.Join(t.TempDir(), "video.mp4")
		_, errs, downloaded := s.command(t, "download", id, "--output", file)
		_, refusal, refused := s.command(t, "download", id, "--output", file)
		waiting := field(t, s.document(t, "submit", "--prompt", "never mind", "--duration", "10", "--pace", "60"), "id")
		s.document(t, "cancel", waiting)
		_, _, cancelled := s.command(t, "watch", waiting)
		s.document(t, "retry", waiting, "--from-scratch")
		after := s.document(t, "submit", "--prompt", "the sequel", "--after", waiting)
		s.document(t, "cancel", waiting)
		models, _, _ := s.command(t, "models", "--json")

		require.Equal(t, id, again)
		require.Contains(t, lines, "COMPLETED")
		require.Equal(t, "COMPLETED", field(t, job, "status"))
		require.Contains(t, list, id)
		require.Zero(t, downloaded, errs)
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Positive(t, info.Size())
		require.NotZero(t, refused)
		require.Contains(t, refusal, "--force")
		require.Equal(t, 1, cancelled, "a cancelled video must not exit with 0")
		require.Contains(t, models, "testcard")
		require.Equal(t, "BLOCKED", field(t, after, "status"))
	})

	t.Run("SaysThatPromptsAreNotSearched", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		submit(t, s.client(t), "periwinkle", 0.5, 0)

		out, errs, status := s.command(t, "list", "periwinkle")
		require.Zero(t, status)
		require.Empty(t, out, "an empty list has no header")
		require.Equal(t, "No jobs found. Words match ids, idempotency keys and metadata values. Prompts are encrypted and cannot be searched.\n",
			errs)
		_, errs, _ = s.command(t, "list", "user:nobody")
		require.Equal(t, "No jobs found.\n", errs)
		_, errs, _ = s.command(t, "list", "periwinkle", "--json")
		require.Empty(t, errs)
	})

	t.Run("SubmitsAFileOnceHoweverOften", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		shots := filepath.Join(t.TempDir(), "shots.jsonl")
		require.NoError(t, os.WriteFile(shots, []byte(`{"prompt":"a fox","params":{"durationSeconds":1,"pace":0}}
{"prompt":"an owl","params":{"durationSeconds":-1}}
{"prompt":"a fox","params":{"durationSeconds":1,"pace":0}}
`), 0o600))
		first, errs, refused := s.command(t, "submit", "--file", shots, "--batch", "foxes-and-owls")
		require.Equal(t, 1, refused)
		require.Contains(t, errs, "line 2: INVALID_INPUT")
		require.Len(t, strings.Fields(first), 2)

		again, _, _ := s.command(t, "submit", "--file", shots, "--batch", "foxes-and-owls")

		require.Equal(t, first, again)
	})

	t.Run("AnswersRowsOfAFileWithEqualResults", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		first := s.document(t, "submit", "--prompt", "a heron in the reeds", "--seed", "4711", "--duration", "1", "--pace", "0", "--wait")
		rows := filepath.Join(t.TempDir(), "herons.csv")
		require.NoError(t, os.WriteFile(rows, []byte("prompt;params.seed;params.durationSeconds;params.pace;reuse\n"+
			"a heron in the reeds;4711;1;0;TRUE\na heron in the reeds;4711;1;0;FALSE\na heron in the reeds;4712;1;0;TRUE\n"), 0o600))
		out, errs, status := s.command(t, "submit", "--file", rows)
		require.Zero(t, status, errs)
		ids := strings.Fields(out)
		require.Len(t, ids, 3)
		require.Equal(t, field(t, first, "id"), field(t, s.document(t, "get", ids[0]), "reusedFrom"))
		for _, id := range ids[1:] {
			job, err := s.client(t).Job(t.Context(), id)
			require.NoError(t, err)
			require.Nil(t, job.ReusedFrom)
		}
	})

	t.Run("BeginsAVideoFromAFile", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		still := filepath.Join(t.TempDir(), "still.png")
		out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=red:s=64x64", "-frames:v", "1", still).CombinedOutput()
		require.NoError(t, err, string(out))

		doc := s.document(t, "submit", "--prompt", "it grows", "--image", still, "--duration", "1", "--pace", "0", "--wait")
		text := filepath.Join(t.TempDir(), "still.txt")
		require.NoError(t, os.WriteFile(text, []byte("a still life"), 0o600))
		_, refusal, status := s.command(t, "submit", "--prompt", "x", "--image", text)

		require.Equal(t, "COMPLETED", field(t, doc, "status"))
		require.Equal(t, 1, status)
		require.Contains(t, refusal, "not a JPEG, PNG or WebP")
	})

	t.Run("JoinsAFileAndTheVideoOfAJobThatHasNotEnded", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		clip := filepath.Join(t.TempDir(), "clip.mp4")
		out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=320x180:d=1", "-pix_fmt", "yuv420p",
			clip).CombinedOutput()
		require.NoError(t, err, string(out))
		source := s.document(t, "submit", "--prompt", "a harbour", "--duration", "1", "--pace", "0")

		doc := s.document(t, "submit", "--model", "video.stitch", "--input", "clips=@"+clip, "--input", "clips="+field(t, source, "id"), "--wait")

		require.Equal(t, "COMPLETED", field(t, doc, "status"))
	})

	t.Run("SkipsOverridesAndRetriesNodesOfAWorkflow", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		graph := filepath.Join(t.TempDir(), "graph.yaml")
		require.NoError(t, os.WriteFile(graph, []byte(fmt.Sprintf(`name: nodes
jobs:
- key: later
  job: {model: testcard, prompt: later, runAt: "%[1]s"}
- key: never
  job: {model: testcard, prompt: never, runAt: "%[1]s", params: {durationSeconds: 1, pace: 0}}
- key: end
  after: [later, never]
  job: {model: testcard, prompt: the end, params: {durationSeconds: 1, pace: 0}}
`, time.Now().AddDate(0, 1, 0).Format(time.RFC3339))), 0o600))
		id := field(t, s.document(t, "workflows", "run", "-f", graph), "id")
		short := strings.TrimPrefix(id[:len(id)-6], "wfl_") + "…"

		watch := func(node int) int {
			job, _, _ := s.command(t, "workflows", "show", short, "--jq", fmt.Sprintf(".jobs[%d].job.id", node))
			_, _, status := s.command(t, "watch", strings.TrimSpace(job))
			return status
		}
		s.document(t, "workflows", "skip", short, "later")
		_, errs, again := s.command(t, "workflows", "override", short, "end", "later")
		s.document(t, "workflows", "override", short, "end", "never")
		ended := watch(2)
		cancelled := s.document(t, "workflows", "cancel", short)
		retried := s.document(t, "workflows", "retry", short)
		after := watch(1)

		require.Equal(t, 1, again)
		require.Contains(t, errs, "The node end does not wait for later.")
		require.Zero(t, ended)
		require.Equal(t, "CANCELLED", field(t, cancelled, "status"))
		require.Equal(t, "RUNNING", field(t, retried, "status"))
		require.Zero(t, after)
		require.Equal(t, "COMPLETED", field(t, s.document(t, "workflows", "show", short), "status"))
	})

	t.Run("SaysWhatIsWrong", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		for _, wrong := range []struct {
			args   []string
			status int
			says   string
		}{
			{[]string{"submit", "--prompt", ""}, 1, "prompt"},
			{[]string{"submit", "--prompt", "x", "--model", "sora"}, 1, "the names are: testcard"},
			{[]string{"submit", "--prompt", "x", "--duration", "-1"}, 1, "params.durationSeconds"},
			{[]string{"submit", "--prompt", "x", "--resolution", "8k"}, 1, "params.resolution"},
			{[]string{"get", "job_00000000-0000-7000-8000-000000000000"}, 1, "no such job"},
			{[]string{"get", "nonsense"}, 1, "is not the id of a job"},
			{[]string{"get"}, 2, "Usage"},
			{[]string{"list", "--first", "0"}, 2, "first"},
			{[]string{"list", "--after", "nonsense"}, 1, "cursor"},
			{[]string{"submit", "--nope"}, 2, "unknown flag"},
			{[]string{"get", "x", "--key", "rl_wrong"}, 1, "key"},
		} {
			t.Run(strings.Join(wrong.args, " "), func(t *testing.T) {
				t.Parallel()

				_, errs, status := s.command(t, wrong.args...)

				require.Equal(t, wrong.status, status, errs)
				require.Contains(t, strings.ToLower(errs), strings.ToLower(wrong.says))
			})
		}
	})
}

// field returns a text field of a document or of the job in it.
func field(t *testing.T, doc map[string]any, name string) string {
	t.Helper()
	if job, ok := doc["job"].(map[string]any); ok {
		doc = job
	}
	value, ok := doc[name].(string)
	require.True(t, ok, "%s in %v", name, doc)
	return value
}

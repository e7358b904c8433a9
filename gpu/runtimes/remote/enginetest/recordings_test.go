package enginetest

import (
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest/recording"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

func TestFakesAnswerAsRecorded(t *testing.T) {
	t.Parallel()

	for name, run := range map[string]func(*testing.T) []recording.Exchange{
		"comfyui": func(t *testing.T) []recording.Exchange {
			fake := NewComfyUI(t)
			return recording.ComfyUI(t, recording.Engine{URL: fake.URL, Restart: fake.Restart, Step: fake.Step})
		},
		"vllm-omni": func(t *testing.T) []recording.Exchange {
			fake := NewVideosAPI(t, VLLMOmni())
			return recording.VideosAPI(t, recording.Engine{URL: fake.URL, Restart: fake.Restart, Step: fake.Step})
		},
		"sglang": func(t *testing.T) []recording.Exchange {
			fake := NewVideosAPI(t, SGLang())
			return recording.VideosAPI(t, recording.Engine{URL: fake.URL, Restart: fake.Restart, Step: fake.Step})
		},
		"cog": func(t *testing.T) []recording.Exchange {
			fake := NewCog(t)
			return recording.Cog(t, recording.Engine{URL: fake.URL, Restart: fake.Restart, Step: fake.Step})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t)
			recorded, err := recording.Read(filepath.Join("testdata/recordings", name+".json"))
			require.NoError(t, err)
			for _, difference := range recording.Compare(recorded, got) {
				t.Error(difference)
			}
		})
	}
}

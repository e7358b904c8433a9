package engines

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest/recording"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "record the answers of the real engines again")

const recordings = "../../gpu/runtimes/remote/enginetest/testdata/recordings"

// TestRecord compares real engines with what was recorded of them, or records it with -update.
func TestRecord(t *testing.T) {
	t.Parallel()

	for name, run := range map[string]func(testing.TB, string) []recording.Exchange{
		"comfyui": func(t testing.TB, dir string) []recording.Exchange {
			return recording.ComfyUI(t, engine(StartComfyUI(t, dir)))
		},
		"vllm-omni": func(t testing.TB, dir string) []recording.Exchange {
			return recording.VideosAPI(t, engine(StartVLLMOmni(t, dir)))
		},
		"sglang": func(t testing.TB, dir string) []recording.Exchange {
			return recording.VideosAPI(t, engine(StartSGLang(t, dir)))
		},
		"cog": func(t testing.TB, dir string) []recording.Exchange {
			return recording.Cog(t, engine(StartCog(t, dir, "SETUP_SECONDS=3")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, t.TempDir())
			file := filepath.Join(recordings, name+".json")
			if *update {
				require.NoError(t, recording.Write(file, got))
				return
			}
			recorded, err := recording.Read(file)
			require.NoError(t, err)
			require.Empty(t, recording.Compare(recorded, got))
		})
	}
}

func engine(s *Server) recording.Engine {
	return recording.Engine{URL: s.URL, Restart: s.Restart, Step: func() {}}
}

package engine_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/engine"
	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://gpu-1:8188":         "http://gpu-1:8188",
		"http://GPU-1:8188/":        "http://gpu-1:8188",
		"https://gpu.example:443":   "https://gpu.example",
		"https://gpu.example/a/b//": "https://gpu.example/a/b",
		"http://[::1]:8188":         "http://[::1]:8188",
	} {
		got, err := engine.ParseURL(address)
		require.NoError(t, err, address)
		require.Equal(t, want, got)
		again, err := engine.ParseURL(got)
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, address := range []string{
		"", "gpu-1:8188", "ftp://gpu-1", "http://", "http:gpu-1", "http://u:hunter2@gpu-1", "http://gpu-1?key=hunter2", "http://gpu-1#x",
		"http://gpu-1/../x y", "http://gpu-1/a%2fb", "http://gpu-1:port", "http://" + strings.Repeat("a", 200),
	} {
		_, err := engine.ParseURL(address)
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestInstance(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://gpu-1:8188":       "gpu-1:8188",
		"https://gpu.example":     "gpu.example:443",
		"https://gpu.example/a/b": "gpu.example:443~a~b",
		"http://[::1]:8188":       "[::1]:8188",
	} {
		require.Equal(t, want, engine.Instance(address))
	}
}

func TestParseKind(t *testing.T) {
	t.Parallel()
	kind, err := engine.ParseKind("videos-api")
	require.NoError(t, err)
	require.Equal(t, engine.VideosAPI, kind)
	_, err = engine.ParseKind("COMFYUI")
	require.ErrorContains(t, err, "it must be comfyui, videos-api, cog, ")
}

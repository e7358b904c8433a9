package agent

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stored writes a file of a test.
func stored(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// random returns bytes that do not compress.
func random(n int) []byte {
	all := make([]byte, n)
	source := rand.NewChaCha8([32]byte{7})
	_, _ = source.Read(all)
	return all
}

func packed(t testing.TB, content []byte, options ...zstd.EOption) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, options...)
	require.NoError(t, err)
	return encoder.EncodeAll(content, nil)
}

func TestCompress(t *testing.T) {
	t.Parallel()

	t.Run("IsUndoneByDecompress", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()

		rapid.Check(t, func(r *rapid.T) {
			content := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(r, "part"), rapid.IntRange(0, 1000).Draw(r, "times"))
			path := filepath.Join(dir, "state")
			require.NoError(r, os.WriteFile(path, content, 0o600))
			small, size, err := compress(path)
			require.NoError(r, err)
			require.NotEmpty(r, small)
			require.NoError(r, decompress(small, size))
			back, err := os.ReadFile(small)
			require.NoError(r, err)
			require.True(r, bytes.Equal(content, back))
		})
	})

	t.Run("RefusesWhatDecompressWould", func(t *testing.T) {
		t.Parallel()
		path := stored(t, make([]byte, 64<<20))

		small, _, err := compress(path)

		require.NoError(t, err)
		require.Empty(t, small)
		require.NoFileExists(t, path+".zst")
	})
}

func TestDecompress(t *testing.T) {
	t.Parallel()

	zeros := packed(t, make([]byte, 8<<20))
	for name, c := range map[string]struct {
		content []byte
		size    int64
	}{
		"a bomb that says its size":      {zeros, 8 << 20},
		"a bomb that says a large size":  {zeros, 1 << 40},
		"a bomb that says another size":  {zeros, 100},
		"less than it says":              {packed(t, []byte("state")), 6},
		"a negative size":                {packed(t, []byte("state")), -1},
		"no size":                        {packed(t, []byte("state")), 0},
		"half of it":                     {packed(t, random(1000))[:500], 1000},
		"what is not compressed":         {[]byte("state"), 5},
		"nothing":                        {nil, 5},
		"more memory than it is to need": {packed(t, random(1000), zstd.WithWindowSize(512<<20), zstd.WithSingleSegment(false)), 900},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := stored(t, c.content)

			err := decompress(path, c.size)

			require.ErrorIs(t, err, errBadPack)
			require.NoFileExists(t, path+".whole")
			if name == "a bomb that says another size" {
				require.ErrorContains(t, err, "at least 101 bytes", "no more is written")
			}
		})
	}
}

func TestPays(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		ratio, speed, bandwidth float64
		want                    bool
	}{
		"half the size over a slow line":        {0.5, 400e6, 50e6, true},
		"half the size over a line as fast":     {0.5, 400e6, 400e6, false},
		"a tenth less over a slow line":         {0.9, 400e6, 50e6, false},
		"nothing less":                          {1, 1e12, 1, false},
		"more":                                  {1.01, 1e12, 1, false},
		"a tenth less over a very slow line":    {0.9, 400e6, 10e6, true},
		"almost nothing left, a slow processor": {0.01, 40e6, 50e6, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, pays(100e6, compressibility{ratio: c.ratio, speed: c.speed}, c.bandwidth))
		})
	}
}

func TestPacker(t *testing.T) {
	t.Parallel()

	wants := func(t *testing.T, p *packer, model, path string) bool {
		t.Helper()
		wanted, err := p.wants(model, path)
		require.NoError(t, err)
		return wanted
	}

	t.Run("CompressesWhatPays", func(t *testing.T) {
		t.Parallel()
		p := &packer{mode: CompressAuto}
		text, noise := stored(t, bytes.Repeat([]byte("latent "), 1<<18)), stored(t, random(2<<20))

		require.False(t, wants(t, p, "text", text), "no upload was measured")
		p.uploaded(2<<20, 20*time.Second)
		require.True(t, wants(t, p, "text", text))
		require.False(t, wants(t, p, "noise", noise), "it does not get smaller")
		require.False(t, wants(t, p, "text", stored(t, []byte("small"))))
		for range 100 {
			p.uploaded(1<<30, time.Microsecond)
		}
		require.False(t, wants(t, p, "text", text), "the upload is faster")
	})

	t.Run("DoesAsItIsTold", func(t *testing.T) {
		t.Parallel()
		require.True(t, wants(t, &packer{mode: CompressZstd}, "m", "none"))
		require.False(t, wants(t, &packer{mode: CompressOff}, "m", "none"))
	})

	t.Run("ReportsAFileThatIsGone", func(t *testing.T) {
		t.Parallel()
		_, err := (&packer{mode: CompressAuto}).wants("m", filepath.Join(t.TempDir(), "gone"))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestCompressedCheckpoint(t *testing.T) {
	t.Parallel()

	t.Run("IsUploadedWithItsSize", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			require.Equal(t, "checkpoint", <-f.model.orders)
			path := file(t, order, "state")
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			f.model.messages <- &runtime.Checkpoint{Path: path, Step: 7, Percent: 62}
			synctest.Wait()

			o := f.of("commitCheckpoint")[0].in["object"].(object)
			require.Equal(t, zstdType, o["contentType"])
			require.Equal(t, object{"step": 7.0, "percent": 62.0, "encoding": "zstd", "size": float64(len(content))}, o["metadata"])
			decoder, err := zstd.NewReader(nil)
			require.NoError(t, err)
			defer decoder.Close()
			back, err := decoder.DecodeAll([]byte(f.body("/"+o["objectKey"].(string))), nil)
			require.NoError(t, err)
			require.Equal(t, content, back)
			left, err := filepath.Glob(order.Workdir + "/state*")
			require.NoError(t, err)
			require.Empty(t, left, "neither form stays")
		}, func(c *Config) { c.CheckpointCompression = CompressZstd })
	})

	// offered are the checkpoints of a lease.
	offered := func(t *testing.T, note object, content []byte, id string) object {
		t.Helper()
		sum, size, err := client.Checksum(bytes.NewReader(content))
		require.NoError(t, err)
		return object{"id": id, "sizeBytes": size, "checksum": sum, "url": "http://store/" + id, "metadata": note}
	}

	t.Run("IsResumedFrom", func(t *testing.T) {
		t.Parallel()
		small := packed(t, []byte("state"))
		prepare := func(c *control, _ *model) {
			c.queue(offered(t, object{"step": 7, "percent": 62, "encoding": "zstd", "size": 5}, small, "art_1"))
			c.stored["/art_1"] = string(small)
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started

			content, err := os.ReadFile(order.Checkpoints[0].Path)
			require.NoError(t, err)
			require.Equal(t, "state", string(content))
		})
	})

	t.Run("IsRejectedIfItIsABomb", func(t *testing.T) {
		t.Parallel()
		bomb, old := packed(t, make([]byte, 8<<20)), []byte("state")
		prepare := func(c *control, _ *model) {
			c.queue(offered(t, object{"step": 7, "encoding": "zstd", "size": 1 << 40}, bomb, "art_new"),
				offered(t, object{"step": 6}, old, "art_old"))
			c.stored["/art_new"], c.stored["/art_old"] = string(bomb), string(old)
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Len(t, order.Checkpoints, 1)
			require.Equal(t, 6, order.Checkpoints[0].Step)
			rejected := f.of("rejectCheckpoint")
			require.Len(t, rejected, 1)
			require.True(t, strings.HasPrefix(rejected[0].in["reason"].(string), errBadPack.Error()))
		})
	})

	t.Run("OfAnUnknownEncodingIsLeftToNewerAgents", func(t *testing.T) {
		t.Parallel()
		prepare := func(c *control, _ *model) {
			c.queue(offered(t, object{"step": 7, "encoding": "brotli"}, []byte("?"), "art_new"), offered(t, object{"step": 6}, []byte("state"),
				"art_old"))
			c.stored["/art_new"], c.stored["/art_old"] = "?", "state"
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Len(t, order.Checkpoints, 1)
			require.Equal(t, 6, order.Checkpoints[0].Step)
			require.Empty(t, f.of("rejectCheckpoint"))
		})
	})
}

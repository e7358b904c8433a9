package testcard_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// withPicture adds a reference picture of two colours to a job.
func withPicture(t *testing.T, job runtime.Start, left, right color.Color) runtime.Start {
	t.Helper()

	scene := image.NewRGBA(image.Rect(0, 0, 301, 97))
	for x := range 301 {
		for y := range 97 {
			scene.Set(x, y, map[bool]color.Color{true: left, false: right}[x < 150])
		}
	}
	var data bytes.Buffer
	require.NoError(t, jpeg.Encode(&data, scene, nil))
	path := filepath.Join(t.TempDir(), "input-0")
	require.NoError(t, os.WriteFile(path, data.Bytes(), 0o600))
	job.Inputs = map[string]string{"referenceImage": path}
	return job
}

const fromPicture = `{"durationSeconds":0.5,"fps":8,"pace":0,"seed":7,"aspectRatio":"1:1","referenceImage":"art_1"}`

func TestBackdrop(t *testing.T) {
	t.Parallel()

	red, blue := color.RGBA{200, 20, 20, 255}, color.RGBA{20, 20, 200, 255}

	t.Run("IsVisibleInTheVideo", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		first := render(t, p, withPicture(t, newJob(t, "A calm sea", fromPicture), red, blue))
		one := frames(t, first.Video)
		other := frames(t, render(t, p, withPicture(t, newJob(t, "A calm sea", fromPicture), blue, red)).Video)

		require.NotEqual(t, one, other)
		require.NotEqual(t, one, undisturbed(t))
		file, err := os.Open(first.Thumbnail)
		require.NoError(t, err)
		defer file.Close()
		thumbnail, _, err := image.Decode(file)
		require.NoError(t, err)
		at := func(x int) (r, b uint32) { r, _, b, _ = thumbnail.At(x, 20).RGBA(); return r, b }
		leftRed, leftBlue := at(100)
		rightRed, rightBlue := at(540)
		require.Greater(t, leftRed, leftBlue)
		require.Greater(t, rightBlue, rightRed)
	})

	t.Run("IsTheSameAfterAResume", func(t *testing.T) {
		t.Parallel()

		slowly := `{"durationSeconds":0.5,"fps":8,"pace":2.4,"seed":7,"aspectRatio":"1:1","referenceImage":"art_1"}`
		taken := interrupted(t, withPicture(t, newJob(t, "A calm sea", slowly), red, blue), step(9))
		job := withPicture(t, newJob(t, "A calm sea", fromPicture), red, blue)
		job.Checkpoints = []runtime.Restorable{taken}
		p := launch(t)

		require.NoError(t, p.Start(job))
		messages := until(t, p, isEnd)

		one[*runtime.Resumed](t, messages)
		resumed := frames(t, last(messages).(*runtime.Result).Video)
		require.Equal(t, frames(t, render(t, p, withPicture(t, newJob(t, "A calm sea", fromPicture), red, blue)).Video), resumed)
		job = withPicture(t, newJob(t, "A calm sea", fromPicture), blue, red)
		job.Checkpoints = []runtime.Restorable{taken}
		require.NoError(t, p.Start(job))
		one[*runtime.CheckpointRejected](t, until(t, p, isEnd))
	})

	t.Run("MustExistAndBeAPicture", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		text := filepath.Join(t.TempDir(), "input-0")
		require.NoError(t, os.WriteFile(text, []byte("<svg/>"), 0o600))
		for _, inputs := range []map[string]string{nil, {"referenceImage": text}, {"referenceImage": text + ".gone"}} {
			job := newJob(t, "A calm sea", fromPicture)
			job.Inputs = inputs

			require.NoError(t, p.Start(job))
			failure, failed := last(until(t, p, isEnd)).(*runtime.Failure)

			require.True(t, failed)
			require.Equal(t, runtime.InvalidInput, failure.Class)
		}
	})
}

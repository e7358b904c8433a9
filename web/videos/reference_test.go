//lint:file-ignore SA1019 the package calls its videos deprecated since OpenAI serves them no more; Reelay does

package videos_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image/color"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

func TestReference(t *testing.T) {
	t.Parallel()

	t.Run("MustBeAnImage", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		client := d.official()
		for _, file := range []io.Reader{
			openai.File(strings.NewReader("<svg/>"), "boat.svg", "image/svg+xml"), strings.NewReader("hello"), strings.NewReader(""),
		} {
			_, err := client.Videos.New(t.Context(), openai.VideoNewParams{
				Prompt: "a paper boat", InputReference: openai.VideoNewParamsInputReferenceUnion{OfFile: file},
			})
			requireParam(t, err)
		}
		require.Zero(t, d.Count(t, "artifacts"))
		require.Zero(t, d.Count(t, "jobs"))
	})

	t.Run("ReachesTheWorkerInEachFormThatTheClientSends", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		client, worker, picture := d.official(), d.Worker(t, "one"), jobstest.Picture(t, color.White)
		uploaded := d.UploadInput(t, d.Client, picture)
		for name, sent := range map[string]openai.VideoNewParamsInputReferenceUnion{
			"a file":            {OfFile: openai.File(bytes.NewReader(picture), "boat.png", "image/png")},
			"a file of no type": {OfFile: bytes.NewReader(picture)},
			"a data URL": {OfImageInputReference: &openai.ImageInputReferenceParam{ImageURL: openai.String("data:image/png;base64," +
				base64.StdEncoding.EncodeToString(picture))}},
			"an input's file_id": {OfImageInputReference: &openai.ImageInputReferenceParam{FileID: openai.String(string(uploaded))}},
		} {
			v, err := client.Videos.New(t.Context(), openai.VideoNewParams{Prompt: "a paper boat", InputReference: sent})
			require.NoError(t, err, name)

			lease, fence := d.Lease(t, worker)
			require.Equal(t, jobID(t, v.ID), lease.Job.ID, name)
			require.Len(t, lease.Inputs, 1, name)
			stored, err := d.Objects.Open(t.Context(), lease.Inputs[0].ObjectKey, lease.Inputs[0].SizeBytes)
			require.NoError(t, err, name)
			got, err := io.ReadAll(stored)
			require.NoError(t, errors.Join(err, stored.Close()), name)
			require.Equal(t, picture, got, name)
			d.finish(t, worker, fence)

			v, err = client.Videos.Get(t.Context(), v.ID)
			require.NoError(t, err, name)
			require.Equal(t, openai.VideoStatusCompleted, v.Status, name)
		}
	})
}

func requireParam(t *testing.T, err error) {
	t.Helper()
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusBadRequest, refused.StatusCode)
	require.Equal(t, "input_reference", refused.Param, refused.Message)
}

package jobstest

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// Picture is a small PNG of one colour.
func Picture(t testing.TB, ink color.Color) []byte {
	t.Helper()
	card := image.NewRGBA(image.Rect(0, 0, 32, 18))
	for i := range 32 * 18 {
		card.Set(i%32, i/32, ink)
	}
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, card))
	return data.Bytes()
}

// RequestInput requests a link to upload a PNG.
func (s *Stack) RequestInput(t testing.TB, p jobs.Principal, data []byte) *inputs.InputUpload {
	t.Helper()
	issued, err := s.Inputs.Request(t.Context(), p, "image/png", int64(len(data)), Checksum(data))
	require.NoError(t, err)
	return issued
}

// Send uploads bytes to a link and returns the status of the response.
func (s *Stack) Send(t testing.TB, link jobs.UploadLink, data []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), link.Method, link.Link.At(s.Base), bytes.NewReader(data))
	require.NoError(t, err)
	for name, value := range link.Headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// UploadInput uploads a PNG and returns its id.
func (s *Stack) UploadInput(t testing.TB, p jobs.Principal, data []byte) models.ArtifactID {
	t.Helper()
	issued := s.RequestInput(t, p, data)
	require.Equal(t, http.StatusOK, s.Send(t, issued.Link, data))
	return issued.ArtifactID
}

// UploadMedia uploads a video or sound and returns its id.
func (s *Stack) UploadMedia(t testing.TB, p jobs.Principal, contentType string, data []byte) models.ArtifactID {
	t.Helper()
	issued, err := s.Inputs.Request(t.Context(), p, contentType, int64(len(data)), Checksum(data))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.Send(t, issued.Link, data))
	return issued.ArtifactID
}

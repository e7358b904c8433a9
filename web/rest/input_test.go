package rest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

func TestCreateInput(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	data := []byte("\x00\x00\x00\x20ftypisom\x00\x00\x02\x00 a video")
	good := map[string]any{"content_type": "video/mp4", "size_bytes": len(data), "checksum": jobstest.Checksum(data)}

	got := a.post(t, "/api/v1/inputs", good)

	require.Equal(t, http.StatusCreated, got.status, got.raw)
	expires, err := time.Parse(time.RFC3339, got.body["expires_at"].(string))
	require.NoError(t, err)
	headers := map[string]string{}
	for name, value := range got.body["headers"].(map[string]any) {
		headers[name] = value.(string)
	}
	link := jobs.UploadLink{Link: jobs.Link(got.body["url"].(string)), Method: got.body["method"].(string), Headers: headers,
		ExpiresAt: expires}
	require.Equal(t, http.StatusOK, a.Send(t, link, data))
	// The test card takes no video, so the refusal shows that the file is known, and its kind.
	refused := a.post(t, work, map[string]any{"model": "testcard",
		"payload": map[string]any{"prompt": "p", "referenceImage": got.body["artifact_id"]}})
	require.Equal(t, http.StatusUnprocessableEntity, refused.status, refused.raw)
	require.Equal(t, "payload.referenceImage", refused.body["field"], refused.raw)
	for field, value := range map[string]any{"content_type": "text/html", "size_bytes": 0, "checksum": "x"} {
		bad := map[string]any{field: value}
		for name, value := range good {
			if name != field {
				bad[name] = value
			}
		}
		got := a.post(t, "/api/v1/inputs", bad)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, got.raw)
		require.Equal(t, field, got.body["field"], got.raw)
	}
}

package rest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStreamSaysWhyAJobWaits(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.Submit(t)
	stream := a.follow(t, job.ID, "")
	// next returns the reasons of the next note, or none at the end of the stream.
	next := func() (codes []string) {
		t.Helper()
		waiting := false
		for stream.lines.Scan() {
			name, value, _ := strings.Cut(stream.lines.Text(), ": ")
			if name == "event" {
				waiting = value == "waiting"
			}
			if name == "data" && waiting {
				var note struct {
					WaitingFor []struct{ Code, Message string } `json:"waiting_for"`
				}
				require.NoError(t, json.Unmarshal([]byte(value), &note))
				for _, r := range note.WaitingFor {
					require.NotEmpty(t, r.Message)
					codes = append(codes, r.Code)
				}
				return codes
			}
		}
		return nil
	}

	require.Contains(t, next(), "NO_POOL")
	_, err := a.Operator.PauseQueue(t.Context(), a.Admin, job.Lane, "", "")
	require.NoError(t, err)
	codes := next()
	for !slices.Contains(codes, "QUEUE_PAUSED") {
		require.NotEmpty(t, codes)
		codes = next()
	}
	_, err = a.Canceller.Cancel(t.Context(), a.Client, job.ID)
	require.NoError(t, err)
	for len(codes) > 0 {
		codes = next()
	}
	require.Equal(t, http.StatusOK, stream.StatusCode)
}

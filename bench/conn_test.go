package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/bench/wire"
	"github.com/stretchr/testify/require"
)

func TestConn(t *testing.T) {
	t.Parallel()

	answering := func(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *wire.Conn {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(answer))
		t.Cleanup(server.Close)
		c := wire.NewConn(strings.TrimPrefix(server.URL, "http://"), "rl_key")
		t.Cleanup(c.Close)
		return c
	}

	t.Run("ReadsAnswersOfKnownAndUnknownLength", func(t *testing.T) {
		t.Parallel()

		long := strings.Repeat("a long answer ", 1000)
		c := answering(t, func(w http.ResponseWriter, r *http.Request) {
			asked, _ := io.ReadAll(r.Body)
			io.WriteString(w, r.Header.Get("Authorization")+" "+string(asked))
			if string(asked) == "much" {
				io.WriteString(w, long)
			}
		})

		for range 2 { // over one connection
			few, err := c.Post([]byte("few"))
			require.NoError(t, err)
			require.Equal(t, "Bearer rl_key few", string(few))
			much, err := c.Post([]byte("much"))
			require.NoError(t, err)
			require.Equal(t, "Bearer rl_key much"+long, string(much))
		}
	})

	for name, test := range map[string]struct {
		answer string
		is     error
	}{
		"AnError":          {`{"errors":[{"message":"no"}]}`, nil},
		"ARefusalForNow":   {`{"errors":[{"extensions":{"code":"UNAVAILABLE","retryAfterSeconds":2}}]}`, wire.ErrLater},
		"ALeaseThatIsLost": {`{"errors":[{"extensions":{"code":"LEASE_LOST"}}]}`, wire.ErrLost},
	} {
		t.Run("Tells"+name, func(t *testing.T) {
			t.Parallel()

			c := answering(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, test.answer) })

			_, err := c.Post(nil)

			require.Error(t, err)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()

	b, err := newBody(submitsQuery, map[string]any{"inputs": []any{submission(), submission()}}, keyMark)
	require.NoError(t, err)
	keys, seen := newKeys(), map[string]bool{}

	for range 3 {
		keys.put(b)
		for _, at := range b.at {
			seen[string(b.text[at:at+len(keyMark)])] = true
		}
	}

	require.Len(t, b.at, 2)
	require.Len(t, seen, 6, "all keys must differ")
}

func TestLeaseIn(t *testing.T) {
	t.Parallel()

	ended := `{"data":{"completeJob":{"job":{"id":"job_1","status":"COMPLETED"},"next":`

	require.Equal(t, lease{"att_2", "token", "job_2"},
		leaseIn([]byte(ended+`{"attemptId":"att_2","fencingToken":"token","job":{"id":"job_2"}}}}}`)))
	require.Zero(t, leaseIn([]byte(ended+`null}}}`)))
}

package blob_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

// calls records the arguments of Observe.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) observe(operation, result string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took >= 0 {
		c.all = append(c.all, operation+" "+result)
	}
}

// take returns the calls since the last take.
func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

func TestObserve(t *testing.T) {
	t.Parallel()

	t.Run("TellsTheOperationAndTheResult", func(t *testing.T) {
		t.Parallel()
		var seen calls
		place := s3Bucket(t)
		s := openS3(t, blob.Config{Place: place, Observe: seen.observe})
		upload := jobs.UploadOf("clip", "text/plain", []byte("hello"))

		require.NoError(t, s.Write(t.Context(), upload, []byte("hello")))
		require.Error(t, s.Write(t.Context(), upload, []byte("hello")))
		_, err := s.Stat(t.Context(), "clip")
		require.NoError(t, err)
		_, err = s.Stat(t.Context(), "none")
		require.ErrorIs(t, err, jobs.ErrNoObject)
		body, err := s.Open(t.Context(), "clip", 5)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		_, err = s.List(t.Context(), "", 10)
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), "clip"))
		require.Equal(t, []string{"write ok", "write exists", "stat ok", "stat missing", "read ok", "list ok", "delete ok"}, seen.take())

		access, _ := s3.Keys()
		wrong := openS3(t, blob.Config{Place: place, Observe: seen.observe, Keys: credentials.NewStaticV4(access, "hunter2", "")})
		_, err = wrong.Stat(t.Context(), "clip")
		require.Error(t, err)
		require.Equal(t, []string{"stat refused"}, seen.take())

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Stat(gone, "clip")
		require.Error(t, err)
		require.Equal(t, []string{"stat cancelled"}, seen.take())
	})

	t.Run("CountsEachTryOfAStoreThatIsOverloadedOrGone", func(t *testing.T) {
		t.Parallel()
		server, err := localstack.StartS3(t.Context(), localstack.S3Config{Dir: t.TempDir(), Bucket: "clips"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = server.Stop(context.Background()) })
		var seen calls
		var once sync.Once
		access, secret := server.Keys()
		place := blob.Place{Kind: blob.KindS3, Bucket: "clips", Endpoint: server.Endpoint(), Region: server.Region(), Addressing: "path"}
		s := openS3(t, blob.Config{
			Place: place, Keys: credentials.NewStaticV4(access, secret, ""), Observe: seen.observe,
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				var busy *http.Response
				once.Do(func() {
					busy = &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Header: http.Header{}, Request: r}
				})
				if busy != nil {
					return busy, nil
				}
				return http.DefaultTransport.RoundTrip(r)
			}),
		})

		_, err = s.Stat(t.Context(), "none")
		require.ErrorIs(t, err, jobs.ErrNoObject)
		require.Equal(t, []string{"stat throttled", "stat missing"}, seen.take())

		require.NoError(t, server.Stop(t.Context()))
		_, err = s.Stat(t.Context(), "none")
		require.Error(t, err)
		require.Contains(t, seen.take(), "stat error")
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

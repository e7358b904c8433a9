package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// TestLinksKeepPostgreSQLsTime runs two api processes whose clocks differ from PostgreSQL's by
// hours. Each must accept links that the other has signed.
func TestLinksKeepPostgreSQLsTime(t *testing.T) {
	t.Parallel()

	for _, ahead := range []time.Duration{-10 * 24 * time.Hour, 10 * 24 * time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()

			clock := modelstest.NewClock(t, modelstest.DSN(t))
			clock.Set(t, ahead)
			s := newServersOver(t, clock.DSN)
			signs, judges := s.api(t), s.api(t)
			c, err := client.New("http://"+signs.address, s.key(t, access.RoleClient))
			require.NoError(t, err)
			id := drill(t, c, 1)
			worker, lease := leased(t, signs.address, s.key(t, access.RoleWorker))

			video := []byte("a video")
			sum, size, err := client.Checksum(bytes.NewReader(video))
			require.NoError(t, err)
			hold := lease.Fence()
			target, err := worker.RequestUpload(t.Context(), client.RequestUploadInput{
				AttemptId: hold.AttemptID, FencingToken: hold.FencingToken,
				Type: client.ArtifactTypeFinalVideo, ContentType: "video/mp4", SizeBytes: size, Checksum: sum,
			})
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(ahead), target.ExpiresAt, 24*time.Hour)
			target.Url = judges.own(t, target.Url)
			require.NoError(t, worker.Upload(t.Context(), target, bytes.NewReader(video), size))
			_, err = worker.CompleteJob(t.Context(), client.CompleteJobInput{
				AttemptId: hold.AttemptID, FencingToken: hold.FencingToken,
				Video: &client.UploadedObject{ObjectKey: target.ObjectKey, SizeBytes: size, Checksum: sum, ContentType: "video/mp4"},
			})
			require.NoError(t, err)

			done := until(t, c, id, completed)
			require.Equal(t, video, fetch(t, judges.own(t, done.Result.Url)))
		})
	}
}

// leased registers a worker and leases the waiting job to it.
func leased(t *testing.T, address, key string) (*client.Client, *client.Lease) {
	t.Helper()
	enrolment, err := client.New("http://"+address, key)
	require.NoError(t, err)
	r, err := enrolment.RegisterWorker(t.Context(), client.RegisterWorkerInput{
		Provider: "static", ProviderInstanceId: "hand", Region: "local", GpuType: "any",
		CapacityClass: client.CapacityClassSpot, Models: []string{"drill"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	worker := enrolment.WithKey(r.WorkerToken)
	answer, err := worker.LeaseJob(t.Context(), client.LeaseJobInput{WorkerId: r.Worker.Id})
	require.NoError(t, err)
	require.NotNil(t, answer.Lease)
	return worker, answer.Lease
}

// own returns the link with the address of this process.
func (a *api) own(t *testing.T, link string) string {
	t.Helper()
	address, err := url.Parse(link)
	require.NoError(t, err)
	address.Host = a.address
	return address.String()
}

func fetch(t *testing.T, link string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, link, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return body
}

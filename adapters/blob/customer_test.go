package blob_test

import (
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/features/webhook"
	"github.com/stretchr/testify/require"
)

// TestCustomers_OfGoogle covers buckets of accounts in Google Cloud Storage. Those in S3 are covered with the
// deliveries into them (features/webhook).
func TestCustomers_OfGoogle(t *testing.T) {
	t.Parallel()

	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{StorageRoot: t.TempDir(), Scheme: "http"})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "films"})
	customers := blob.CustomersOf(server.URL())
	bucket, err := customers.Open(t.Context(), "gs://films/raw/2026", webhook.BucketKeys{ServiceAccount: "{}"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })

	require.NoError(t, bucket.Write(t.Context(), video("job_1/clip.mp4", "one clip"), strings.NewReader("one clip")))
	require.NoError(t, bucket.Write(t.Context(), video("job_1/clip.mp4", "one clip"), strings.NewReader("one clip")), "it is there already")
	err = bucket.Write(t.Context(), video("job_1/clip.mp4", "two clip"), strings.NewReader("two clip"))
	require.ErrorIs(t, err, webhook.ErrOccupied)

	object, err := server.GetObject("films", "raw/2026/job_1/clip.mp4")
	require.NoError(t, err)
	require.Equal(t, "one clip", string(object.Content))
	require.NoError(t, bucket.Delete(t.Context(), "job_1/clip.mp4"))
	_, err = server.GetObject("films", "raw/2026/job_1/clip.mp4")
	require.Error(t, err)
	_, err = customers.Open(t.Context(), "gs://films/", webhook.BucketKeys{})
	require.ErrorContains(t, err, "needs the key file of a service account")
}

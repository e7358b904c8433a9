package webhook_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

// customer is an S3 server of an account.
type customer struct {
	*localstack.S3
	dir  string
	keys webhook.BucketKeys
	// url is the folder "raw" in its bucket.
	url string
	// faults answers requests in place of the server, or is nil.
	faults atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

func newCustomer(t *testing.T) *customer {
	c := &customer{dir: t.TempDir()}
	var err error
	c.S3, err = localstack.StartS3(t.Context(), localstack.S3Config{Dir: c.dir, Bucket: "films"})
	require.NoError(t, err)
	t.Cleanup(func() { c.Stop(context.Background()) })
	c.keys.AccessKey, c.keys.SecretKey = c.Keys()
	target, err := url.Parse(c.Endpoint())
	require.NoError(t, err)
	inside := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := c.faults.Load(); fault == nil || !(*fault)(w, r) {
			inside.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	c.url = "s3://films/raw/?region=us-east-1&endpoint=" + front.URL
	return c
}

// files returns the files in the bucket, by name.
func (c *customer) files(t *testing.T) map[string]string {
	root := filepath.Join(c.dir, "buckets", "films")
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.Contains(path, ".sgwtmp") {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	}))
	return found
}

// newest returns the newest delivery to an endpoint.
func newest(t *testing.T, s *jobstest.Stack, endpoint models.WebhookEndpointID) *webhooks.Delivery {
	page, err := s.Reads.Webhooks.Deliveries(t.Context(), s.Client, webhooks.DeliveryFilter{EndpointID: endpoint}, paging.Request{First: 1})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	return page.Items[0]
}

// complete runs a job to its end and returns it.
func complete(t *testing.T, s *jobstest.Stack) *models.Job {
	job := s.Submit(t)
	worker := s.Worker(t, "one")
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
	return job
}

func TestBucket(t *testing.T) {
	t.Parallel()

	t.Run("GetsTheVideoAndItsDescription", func(t *testing.T) {
		t.Parallel()
		s, c := jobstest.New(t), newCustomer(t)
		endpoint, err := s.Webhooks.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), c.url, c.keys)
		require.NoError(t, err)
		require.Empty(t, c.files(t), "the test object was deleted")
		job := complete(t, s)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		files := c.files(t)
		folder := "raw/" + string(job.ID) + "/"
		require.Len(t, files, 2)
		require.Equal(t, "a video", files[folder+string(job.ID)+"-final_video.mp4"])
		var description struct {
			Type  string
			Data  map[string]any
			Files []string
		}
		require.NoError(t, json.Unmarshal([]byte(files[folder+"job.json"]), &description))
		require.Equal(t, "job.completed", description.Type)
		require.Equal(t, []string{string(job.ID) + "-final_video.mp4"}, description.Files)
		require.Equal(t, string(job.ID), description.Data["job_id"])
		require.Nil(t, description.Data["result_url"])
		require.NotContains(t, files[folder+"job.json"], c.keys.SecretKey)

		delivery := newest(t, s, endpoint.ID)
		require.Equal(t, webhooks.DeliveryDelivered, delivery.State)
		_, err = s.Webhooks.Redeliver(t.Context(), s.Client, delivery.ID)
		require.NoError(t, err)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		require.Empty(t, newest(t, s, endpoint.ID).LastError, "the same objects are there already")
		require.Equal(t, files, c.files(t))
	})

	t.Run("IsTriedAgainUntilItTakesTheVideo", func(t *testing.T) {
		t.Parallel()
		s, c := jobstest.New(t), newCustomer(t)
		endpoint, err := s.Webhooks.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), c.url, c.keys)
		require.NoError(t, err)
		job := complete(t, s)
		for _, fault := range []struct {
			answer func(w http.ResponseWriter, r *http.Request) bool
			says   string
		}{
			{func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut {
					return false
				}
				http.Error(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>", http.StatusServiceUnavailable)
				return true
			}, "SlowDown"},
			{func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut {
					return false
				}
				http.Error(w, "<Error><Code>QuotaExceeded</Code><Message>Full.</Message></Error>", http.StatusForbidden)
				return true
			}, "the bucket is full"},
			{func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut {
					return false
				}
				panic(http.ErrAbortHandler)
			}, "EOF"},
			{func(w http.ResponseWriter, r *http.Request) bool { // the video arrives, but the response is lost
				if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "mp4") {
					return false
				}
				c.faults.Store(nil)
				forward(r, c.Endpoint())
				panic(http.ErrAbortHandler)
			}, "EOF"},
		} {
			c.faults.Store(&fault.answer)
			require.Equal(t, 1, jobstest.Deliver(t, s))
			delivery := newest(t, s, endpoint.ID)
			require.Equal(t, webhooks.DeliveryPending, delivery.State)
			require.Contains(t, delivery.LastError, "The bucket did not take it: ")
			require.Contains(t, delivery.LastError, fault.says)
			require.NotContains(t, delivery.LastError, "X-Amz-Signature")
			require.NotContains(t, delivery.LastError, c.keys.SecretKey)
			ageWebhooks(t, s, 15*time.Minute)
		}
		c.faults.Store(nil)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		require.Equal(t, webhooks.DeliveryDelivered, newest(t, s, endpoint.ID).State)
		require.Equal(t, "a video", c.files(t)["raw/"+string(job.ID)+"/"+string(job.ID)+"-final_video.mp4"])
	})

	t.Run("NeverLosesWhatItContains", func(t *testing.T) {
		t.Parallel()
		s, c := jobstest.New(t), newCustomer(t)
		endpoint, err := s.Webhooks.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), c.url, c.keys)
		require.NoError(t, err)
		job := complete(t, s)
		own := filepath.Join(c.dir, "buckets", "films", "raw", string(job.ID), string(job.ID)+"-final_video.mp4")
		require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
		require.NoError(t, os.WriteFile(own, []byte("my own"), 0o600))

		require.Equal(t, 1, jobstest.Deliver(t, s))

		require.Contains(t, newest(t, s, endpoint.ID).LastError, "another object has this name, and it is not overwritten")
		text, err := os.ReadFile(own)
		require.NoError(t, err)
		require.Equal(t, "my own", string(text))
	})

	t.Run("IsTestedOnRequest", func(t *testing.T) {
		t.Parallel()
		s, c := jobstest.New(t), newCustomer(t)
		endpoint, err := s.Webhooks.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), c.url, c.keys)
		require.NoError(t, err)
		_, err = s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		require.Equal(t, webhooks.DeliveryDelivered, newest(t, s, endpoint.ID).State)
		require.Empty(t, c.files(t))
	})

	t.Run("KeepsItsClaimDuringALongCopy", func(t *testing.T) {
		t.Parallel()
		s, c := jobstest.New(t), newCustomer(t)
		endpoint, err := s.Webhooks.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), c.url, c.keys)
		require.NoError(t, err)
		complete(t, s)
		s.Deliverer.ExtendEvery(20 * time.Millisecond)
		begun, goOn := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		slow := func(_ http.ResponseWriter, _ *http.Request) bool {
			if once.CompareAndSwap(false, true) {
				close(begun)
				<-goOn
			}
			return false
		}
		c.faults.Store(&slow)
		delivered := make(chan int, 1)
		go func() { delivered <- jobstest.Deliver(t, s) }()
		<-begun
		first := newest(t, s, endpoint.ID).ClaimedUntil

		testrun.Eventually(t, "the claim is extended", func() bool { return newest(t, s, endpoint.ID).ClaimedUntil.After(first) })
		close(goOn)

		require.Equal(t, 1, <-delivered)
		require.Equal(t, webhooks.DeliveryDelivered, newest(t, s, endpoint.ID).State)
	})

	t.Run("MayGetNewKeys", func(t *testing.T) {
		t.Parallel()
		s, c := jobstest.New(t), newCustomer(t)
		endpoint, err := s.Webhooks.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), c.url, c.keys)
		require.NoError(t, err)

		_, err = s.Webhooks.SetBucketKeys(t.Context(), s.Client, endpoint.ID, webhook.BucketKeys{AccessKey: "nobody", SecretKey: "hunter2"})
		jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		require.ErrorContains(t, err, "the store does not know this access key")
		require.NotContains(t, err.Error(), "hunter2")
		_, err = s.Webhooks.SetBucketKeys(t.Context(), s.Client, endpoint.ID, c.keys)
		require.NoError(t, err)
		_, _, err = s.Webhooks.RotateSecret(t.Context(), s.Client, endpoint.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)

		hook, _ := jobstest.Hook(t, s, jobstest.NewReceiver(t))
		_, err = s.Webhooks.SetBucketKeys(t.Context(), s.Client, hook.ID, c.keys)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierPro), "CLIENT")
		_, err = s.Webhooks.SetBucketKeys(t.Context(), other, endpoint.ID, c.keys)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("IsRefusedWithAReason", func(t *testing.T) {
		t.Parallel()
		s, c := jobstest.New(t), newCustomer(t)
		refused := func(text string, keys webhook.BucketKeys) error {
			_, err := s.Webhooks.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), text, keys)
			jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
			return err
		}
		for text, says := range map[string]string{
			"https://example.com/hook":                          "it must be gs://BUCKET or s3://BUCKET",
			"s3://films/a/../b/?region=eu-1":                    "its folder must be",
			"s3://films/raw/":                                   "it names no region",
			"s3://films/raw/?region=a.evil.example":             "the name of a region",
			"s3://films/raw/?region=eu-1&links=api":             "its option links is for Reelay's own bucket",
			"gs://films/raw/":                                   "needs the key file of a service account",
			strings.Replace(c.url, "s3://films", "s3://no", 1):  "is not the name of a bucket",
			strings.Replace(c.url, "//films", "//elsewhere", 1): "create the bucket, or correct its name",
		} {
			require.ErrorContains(t, refused(text, c.keys), says, text)
		}
		require.ErrorContains(t, refused(c.url, webhook.BucketKeys{}), "an access key and a secret key")
		require.ErrorContains(t, refused(c.url, webhook.BucketKeys{AccessKey: strings.Repeat("a", 17<<10)}), "at most 16384 bytes")
		noFile := webhook.BucketKeys{ServiceAccount: `{"private_key": "hunter2"}`}
		require.ErrorContains(t, refused("gs://films/", noFile), "no key file of Google's")
		for _, elsewhere := range []string{
			`"token_uri": "http://169.254.169.254/"`,
			`"token_uri": "https://oauth2.googleapis.com/token", "universe_domain": "evil.example"`,
		} {
			account := `{"type": "service_account", "private_key": "hunter2", ` + elsewhere + `}`
			require.ErrorContains(t, refused("gs://films/", webhook.BucketKeys{ServiceAccount: account}), "a server for tokens that is not Google's")
		}
		strict := &webhook.Endpoints{DB: s.DB, Sealer: s.Webhooks.Sealer, Buckets: blob.Customers{Policy: outbound.Policy{}}}
		_, err := strict.CreateBucketEndpoint(t.Context(), s.Client, models.NewWebhookEndpointID(), c.url, c.keys)
		require.ErrorContains(t, err, "its endpoint is not allowed")
		require.Empty(t, c.files(t))
	})
}

// forward sends a request on, and ignores the response.
func forward(r *http.Request, to string) {
	target, err := url.Parse(to)
	if err != nil {
		panic(err)
	}
	httputil.NewSingleHostReverseProxy(target).ServeHTTP(httptest.NewRecorder(), r)
}

package hosted_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

// specOf returns what a test must know of a provider.
func specOf(t *testing.T, name string) spec {
	t.Helper()
	for _, s := range specs {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("there is no provider %s", name)
	return spec{}
}

// Without a bucket, Veo's answer holds the video.
func TestVeoWithoutABucket(t *testing.T) {
	t.Parallel()
	s := specOf(t, "veo")
	s.fixed = nil
	f := s.fake(t)
	f.Run(10 * time.Millisecond)
	a := s.agent(t, f, key)
	a.Start(s.job("A paper boat"))

	end := a.End()

	require.NotNil(t, end.Result, "%+v", end.Failure)
}

// The token of an account goes to Google's own storage and to the API, and nowhere else.
func TestTheTokenOfAnAccountStays(t *testing.T) {
	t.Parallel()
	var seen []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.EscapedPath()+"?"+r.URL.RawQuery+" "+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "video/mp4")
	}))
	t.Cleanup(api.Close)
	engine := func(a *provider.Adapter) *hosted.Engine {
		return hosted.New(a, remote.Target{URL: api.URL + "/v1/projects/p/locations/r", Secrets: func() (http.Header, error) {
			return provider.Bearer.Header("token"), nil
		}}, nil)
	}
	open := func(a *provider.Adapter, address string) error {
		body, _, _, err := engine(a).Fetch(t.Context(), remote.File{Ref: address}, 0)
		if err == nil {
			require.NoError(t, body.Close())
		}
		return err
	}

	require.NoError(t, open(provider.Veo, "gs://bucket-1/a/b?c#d.mp4"))
	require.NoError(t, open(provider.Veo, api.URL+"/films/x.mp4"))
	for _, address := range []string{
		"gs://", "gs://bucket-1", "gs://bucket-1/", "gs://bucket-1/..", "gs://../a",
		"gs://evil.com:80/a", "gs://a@b/c",
	} {
		require.Error(t, open(provider.Veo, address), address)
	}
	require.Error(t, open(provider.Kling, "gs://bucket-1/a.mp4"))

	require.Equal(t, []string{"/storage/v1/b/bucket-1/o/a%2Fb%3Fc%23d.mp4?alt=media Bearer token", "/films/x.mp4? "}, seen)
}

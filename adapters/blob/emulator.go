package blob

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"
)

// openEmulator opens a bucket of an emulator of Google Cloud Storage.
func openEmulator(ctx context.Context, cfg Config, opts []option.ClientOption) (*googleBucket, error) {
	host := cfg.EmulatorHost
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	endpoint, err := url.Parse(host)
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("STORAGE_EMULATOR_HOST is not the address of an emulator") // it may contain a password
	}
	user := endpoint.User
	endpoint.User = nil
	return openGoogle(ctx, cfg, append([]option.ClientOption{
		option.WithEndpoint(endpoint.JoinPath("/storage/v1/").String()), storage.WithJSONReads(),
		option.WithHTTPClient(&http.Client{Transport: emulatorTransport(user)}),
	}, opts...))
}

// emulatorTransport sends a user's password with each request.
func emulatorTransport(user *url.Userinfo) http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxIdleConns
	if user == nil {
		return transport
	}
	return authenticated{transport, user}
}

type authenticated struct {
	http.RoundTripper
	user *url.Userinfo
}

func (a authenticated) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	password, _ := a.user.Password()
	r.SetBasicAuth(a.user.Username(), password)
	return a.RoundTripper.RoundTrip(r)
}

// createBucket makes the bucket of an emulator if it is missing.
func (b *googleBucket) createBucket(ctx context.Context) error {
	if _, err := b.once().Attrs(ctx); !errors.Is(err, storage.ErrBucketNotExist) {
		return err
	}
	err := b.once().Create(ctx, "reelay", nil)
	if isStatus(err, http.StatusConflict) { // another process was first
		return nil
	}
	return err
}

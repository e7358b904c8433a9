package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	miniokeys "github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/jobs"
	"google.golang.org/api/option"
)

// Customers opens buckets of accounts, at the addresses that the policy allows. It implements
// webhook.Buckets.
type Customers struct {
	Policy outbound.Policy
	// google are options of Google's client in tests.
	google []option.ClientOption
}

var _ webhook.Buckets = Customers{}

const (
	// bytesPerSecond is how fast a copy must be at least.
	bytesPerSecond = 256 << 10
	// maxFolder bounds the folder of a bucket, in bytes: names of files come after it.
	maxFolder = 512
)

// Open opens s3://BUCKET/FOLDER/?… or gs://BUCKET/FOLDER/.
func (c Customers) Open(ctx context.Context, text string, keys webhook.BucketKeys) (webhook.Bucket, error) {
	place, folder, err := customerPlace(text)
	if err != nil {
		return nil, err
	}
	config := Config{Place: place, LinkKeys: OneKey(make([]byte, 32)), Transport: c.Policy.Client(0).Transport}
	var options []option.ClientOption
	switch {
	case place.Kind == KindS3 && (keys.AccessKey == "" || keys.SecretKey == ""):
		return nil, errors.New("a bucket of S3 needs an access key and a secret key")
	case place.Kind == KindS3:
		if place.Endpoint != "" {
			if _, err := c.Policy.CheckURL(place.Endpoint); err != nil {
				return nil, fmt.Errorf("its endpoint is not allowed: %w", err)
			}
		}
		config.Keys = miniokeys.NewStaticV4(keys.AccessKey, keys.SecretKey, "")
	case keys.ServiceAccount == "":
		return nil, errors.New("a bucket of Google Cloud Storage needs the key file of a service account")
	case c.google != nil:
		options = c.google
	default:
		account, err := c.account(keys.ServiceAccount)
		if err != nil {
			return nil, err
		}
		options = []option.ClientOption{option.WithAuthCredentials(account)}
	}
	store, err := Open(ctx, config, options...)
	if err != nil {
		return nil, err
	}
	return &customerBucket{store, folder}, nil
}

// account reads the key file of a service account. It may not lead to other servers than Google's.
func (c Customers) account(text string) (*auth.Credentials, error) {
	var file struct {
		Type     string `json:"type"`
		TokenURI string `json:"token_uri"`
		Universe string `json:"universe_domain"`
	}
	wrong := errors.New("its service account is no key file of Google's") // the library's error shows parts of the key
	if err := json.Unmarshal([]byte(text), &file); err != nil || file.Type != "service_account" {
		return nil, wrong
	}
	if !slices.Contains(tokenServers, file.TokenURI) || file.Universe != "" && file.Universe != "googleapis.com" {
		return nil, errors.New("its service account names a server for tokens that is not Google's")
	}
	account, err := credentials.NewCredentialsFromJSON(credentials.ServiceAccount, []byte(text), &credentials.DetectOptions{
		Scopes: []string{"https://www.googleapis.com/auth/devstorage.read_write"}, Client: c.Policy.Client(callTimeout).Client,
	})
	if err != nil {
		return nil, wrong
	}
	return account, nil
}

// tokenServers are Google's own.
var tokenServers = []string{"https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token"}

// customerPlace splits the folder from a place.
func customerPlace(text string) (Place, string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Place{}, "", errors.New("it must be s3://BUCKET/FOLDER/ or gs://BUCKET/FOLDER/, with options after a question mark")
	}
	folder := strings.Trim(u.Path, "/")
	if folder != "" {
		if err := checkKey(folder); err != nil || len(folder) > maxFolder {
			return Place{}, "", fmt.Errorf("its folder must be up to %d bytes of UTF-8 without empty parts, \".\" and \"..\"", maxFolder)
		}
		folder += "/"
	}
	u.Path, u.RawPath = "", ""
	place, err := ParsePlace(u.String())
	if err == nil && place.Links != LinksAuto {
		err = errors.New("its option links is for Reelay's own bucket")
	}
	return place, folder, err
}

// customerBucket is a folder in a bucket of an account.
type customerBucket struct {
	store  *Store
	folder string
}

// Write implements webhook.Bucket. It also asks before whether the key is used, if the keys may read: some
// stores ignore conditions.
func (b *customerBucket) Write(ctx context.Context, u jobs.Upload, body io.Reader) error {
	u.Key = b.folder + u.Key
	ctx, cancel := context.WithTimeout(ctx, writeTimeout+time.Duration(u.SizeBytes/bytesPerSecond)*time.Second)
	defer cancel()
	stored, err := b.store.stat(ctx, u.Key)
	if err != nil {
		_, err := b.store.backend.write(ctx, u, body)
		if errors.Is(err, errStored) { // written in the meantime, or not readable
			err = fmt.Errorf("%s: %w", u.Key, webhook.ErrOccupied)
		}
		return err
	}
	if stored.SizeBytes != u.SizeBytes || stored.Checksum != u.Checksum {
		return fmt.Errorf("%s: %w", u.Key, webhook.ErrOccupied)
	}
	return nil
}

// Delete implements webhook.Bucket.
func (b *customerBucket) Delete(ctx context.Context, key string) error {
	return b.store.Delete(ctx, b.folder+key)
}

// Close implements webhook.Bucket.
func (b *customerBucket) Close() error { return b.store.Close() }

// transportOf returns the transport of a configuration, or a new one.
func transportOf(cfg Config) http.RoundTripper {
	if cfg.Transport != nil {
		return cfg.Transport
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = maxIdleConns, headerTimeout
	transport.DisableCompression = true // an object is what was stored
	return transport
}

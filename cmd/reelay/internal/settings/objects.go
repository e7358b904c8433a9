package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/internal/secretfile"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
)

// Objects says where objects are stored.
type Objects struct {
	Store        string // as blob.ParsePlace reads it
	Checkpoints  string // the same for checkpoints; "" is in store, too
	Bucket       string // GCS_BUCKET: another way to say gs://bucket
	EmulatorHost string
	AccessKey    string // for S3; "" takes Amazon's usual ones
	SecretKey    string
	cdn          blob.CDN

	Places blob.Config // what check makes of it
}

func readObjects() Objects {
	return Objects{
		Store: env("REELAY_STORE", ""), Checkpoints: env("REELAY_CHECKPOINT_STORE", ""),
		Bucket: env("GCS_BUCKET", ""), EmulatorHost: env("STORAGE_EMULATOR_HOST", ""),
		AccessKey: env("REELAY_S3_ACCESS_KEY", ""), SecretKey: env("REELAY_S3_SECRET_KEY", ""),
		cdn: blob.CDN{URL: env("REELAY_CDN", ""), KeyName: env("REELAY_CDN_KEY_NAME", ""), KeyFile: env("REELAY_CDN_KEY_FILE", "")},
	}
}

// Named reports whether a store is set.
func (o *Objects) Named() bool { return o.Store != "" || o.Bucket != "" }

// OwnLinks reports whether links to videos lead to the API's own server.
func (o *Objects) OwnLinks() bool {
	return (o.EmulatorHost != "" || o.Places.Place.Links == blob.LinksAPI) && o.cdn.URL == ""
}

// check reads the places. An error shows no key.
func (o *Objects) check(bad func(name, value, may string)) error {
	var wrong []error
	if o.Bucket != "" && (len(o.Bucket) < 3 || strings.ContainsAny(o.Bucket, "/: ")) {
		bad("GCS_BUCKET", o.Bucket, "the name of a bucket, without gs://")
		return nil
	}
	if o.Store != "" && o.Bucket != "" {
		wrong = append(wrong, errors.New("REELAY_STORE and GCS_BUCKET are both set: use one of them"))
	}
	read := func(name, text string) blob.Place {
		place, err := blob.ParsePlace(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s is wrong: %w", name, err))
		}
		return place
	}
	o.cdn.Folders = []string{lease.ArtifactsFolder, inputs.InputsFolder} // checkpoints are read once, by workers
	o.Places = blob.Config{EmulatorHost: o.EmulatorHost, CDN: o.cdn, Own: append(o.cdn.Folders, lease.CheckpointsFolder)}
	wrong = append(wrong, o.cdn.Check())
	switch {
	case o.Store != "":
		o.Places.Place = read("REELAY_STORE", o.Store)
	case o.Bucket != "":
		o.Places.Place = blob.Place{Kind: blob.KindGoogle, Bucket: o.Bucket, Links: blob.LinksAuto}
	}
	if o.Checkpoints != "" {
		o.Places.Folders = map[string]blob.Place{lease.CheckpointsFolder: read("REELAY_CHECKPOINT_STORE", o.Checkpoints)}
	}
	if (o.AccessKey == "") != (o.SecretKey == "") {
		wrong = append(wrong, errors.New("REELAY_S3_ACCESS_KEY and REELAY_S3_SECRET_KEY must be set both or not at all"))
	}
	if o.AccessKey != "" {
		o.Places.Keys = credentials.New(&settingKeys{start: *o})
	}
	return errors.Join(wrong...)
}

// settingKeys are the keys in the settings for S3, whose files may change. It implements
// credentials.Provider.
type settingKeys struct {
	start Objects
	given credentials.Value
}

func (k *settingKeys) newest() credentials.Value {
	return credentials.Value{
		AccessKeyID:     cmp.Or(secretfile.Newest("REELAY_S3_ACCESS_KEY"), k.start.AccessKey),
		SecretAccessKey: cmp.Or(secretfile.Newest("REELAY_S3_SECRET_KEY"), k.start.SecretKey),
		SignerType:      credentials.SignatureV4,
	}
}

// Retrieve implements credentials.Provider.
func (k *settingKeys) Retrieve() (credentials.Value, error) {
	k.given = k.newest()
	return k.given, nil
}

// RetrieveWithCredContext implements credentials.Provider.
func (k *settingKeys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return k.Retrieve()
}

// IsExpired implements credentials.Provider.
func (k *settingKeys) IsExpired() bool { return k.given != k.newest() }

// Open connects to the stores. Links to this server are signed with the first of linkKeys, by the clock now.
func (o *Objects) Open(ctx context.Context, linkKeys func() [][]byte, now func() time.Time,
	observe func(operation, result string, took time.Duration),
) (*blob.Store, error) {
	places := o.Places
	places.LinkKeys, places.Now, places.Observe = linkKeys, now, observe
	return blob.Open(ctx, places)
}

// environment returns the settings that describe the store to other processes.
func (o *Objects) environment() []string {
	return []string{
		"REELAY_STORE=" + o.Store, "REELAY_CHECKPOINT_STORE=" + o.Checkpoints, "GCS_BUCKET=" + o.Bucket,
		"STORAGE_EMULATOR_HOST=" + o.EmulatorHost, "REELAY_S3_ACCESS_KEY=" + o.AccessKey, "REELAY_S3_SECRET_KEY=" + o.SecretKey,
	}
}

// Hosts returns the addresses of the stores on one's own network.
func (o *Objects) Hosts() []string {
	hosts := []string{front.HostPort(o.EmulatorHost), o.Places.Place.Host()}
	for _, place := range o.Places.Folders {
		hosts = append(hosts, place.Host())
	}
	return hosts
}

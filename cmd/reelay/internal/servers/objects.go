package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
)

// objectsConfig says where objects are stored.
type objectsConfig struct {
	store        string // as blob.ParsePlace reads it
	checkpoints  string // the same for checkpoints; "" is in store, too
	bucket       string // GCS_BUCKET: another way to say gs://bucket
	emulatorHost string
	accessKey    string // for S3; "" takes Amazon's usual ones
	secretKey    string
	cdn          blob.CDN

	places blob.Config // what check makes of it
}

func readObjects() objectsConfig {
	return objectsConfig{
		store: env("REELAY_STORE", ""), checkpoints: env("REELAY_CHECKPOINT_STORE", ""),
		bucket: env("GCS_BUCKET", ""), emulatorHost: env("STORAGE_EMULATOR_HOST", ""),
		accessKey: env("REELAY_S3_ACCESS_KEY", ""), secretKey: env("REELAY_S3_SECRET_KEY", ""),
		cdn: blob.CDN{URL: env("REELAY_CDN", ""), KeyName: env("REELAY_CDN_KEY_NAME", ""), KeyFile: env("REELAY_CDN_KEY_FILE", "")},
	}
}

// named reports whether a store is set.
func (o *objectsConfig) named() bool { return o.store != "" || o.bucket != "" }

// ownLinks reports whether links to videos lead to the API's own server.
func (o *objectsConfig) ownLinks() bool {
	return (o.emulatorHost != "" || o.places.Place.Links == blob.LinksAPI) && o.cdn.URL == ""
}

// check reads the places. An error shows no key.
func (o *objectsConfig) check(bad func(name, value, may string)) error {
	var wrong []error
	if o.bucket != "" && (len(o.bucket) < 3 || strings.ContainsAny(o.bucket, "/: ")) {
		bad("GCS_BUCKET", o.bucket, "the name of a bucket, without gs://")
		return nil
	}
	if o.store != "" && o.bucket != "" {
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
	o.places = blob.Config{EmulatorHost: o.emulatorHost, CDN: o.cdn, Own: append(o.cdn.Folders, lease.CheckpointsFolder)}
	wrong = append(wrong, o.cdn.Check())
	switch {
	case o.store != "":
		o.places.Place = read("REELAY_STORE", o.store)
	case o.bucket != "":
		o.places.Place = blob.Place{Kind: blob.KindGoogle, Bucket: o.bucket, Links: blob.LinksAuto}
	}
	if o.checkpoints != "" {
		o.places.Folders = map[string]blob.Place{lease.CheckpointsFolder: read("REELAY_CHECKPOINT_STORE", o.checkpoints)}
	}
	if (o.accessKey == "") != (o.secretKey == "") {
		wrong = append(wrong, errors.New("REELAY_S3_ACCESS_KEY and REELAY_S3_SECRET_KEY must be set both or not at all"))
	}
	if o.accessKey != "" {
		o.places.Keys = credentials.NewStaticV4(o.accessKey, o.secretKey, "")
	}
	return errors.Join(wrong...)
}

// open connects to the stores. Links to this server are signed with the first of linkKeys, by the clock now.
func (o *objectsConfig) open(ctx context.Context, linkKeys func() [][]byte, now func() time.Time) (*blob.Store, error) {
	places := o.places
	places.LinkKeys, places.Now = linkKeys, now
	return blob.Open(ctx, places)
}

// environment returns the settings that describe the store to other processes.
func (o *objectsConfig) environment() []string {
	return []string{
		"REELAY_STORE=" + o.store, "REELAY_CHECKPOINT_STORE=" + o.checkpoints, "GCS_BUCKET=" + o.bucket,
		"STORAGE_EMULATOR_HOST=" + o.emulatorHost, "REELAY_S3_ACCESS_KEY=" + o.accessKey, "REELAY_S3_SECRET_KEY=" + o.secretKey,
	}
}

// hosts returns the addresses of the stores on one's own network.
func (o *objectsConfig) hosts() []string {
	hosts := []string{hostPort(o.emulatorHost), o.places.Place.Host()}
	for _, place := range o.places.Folders {
		hosts = append(hosts, place.Host())
	}
	return hosts
}

// proveSoon is how soon an api process tries again whether the buckets enforce the terms of links, while
// one does not answer.
const proveSoon = 10 * time.Second

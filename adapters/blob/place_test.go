package blob_test

import (
	"testing"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/stretchr/testify/require"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()

	t.Run("ReadsWhatStringWrites", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]blob.Place{
			"gs://clips":                        {Kind: "gs", Bucket: "clips", Links: "auto"},
			"gs://clips?class=NEARLINE":         {Kind: "gs", Bucket: "clips", Links: "auto", Class: "NEARLINE"},
			"gs://my_clips.example/?links=auto": {Kind: "gs", Bucket: "my_clips.example", Links: "auto"},
			"s3://clips?region=eu-central-1":    {Kind: "s3", Bucket: "clips", Links: "auto", Region: "eu-central-1", Addressing: "auto"},
			"s3://clips?endpoint=https://minio.example:9000/&addressing=path&links=api&class=STANDARD_IA": {Kind: "s3", Bucket: "clips",
				Links: "api", Endpoint: "https://minio.example:9000", Region: "us-east-1", Addressing: "path", Class: "STANDARD_IA"},
		} {
			place, err := blob.ParsePlace(text)
			require.NoError(t, err, text)
			require.Equal(t, want, place)
			again, err := blob.ParsePlace(place.String())
			require.NoError(t, err, place.String())
			require.Equal(t, place, again)
		}
	})

	t.Run("SaysWhatIsWrong", func(t *testing.T) {
		t.Parallel()
		for text, says := range map[string]string{
			"":                             "it must be gs://BUCKET or s3://BUCKET",
			"clips":                        "it must be gs://BUCKET or s3://BUCKET",
			"azure://clips":                "it must be gs://BUCKET or s3://BUCKET",
			"s3://":                        "is not the name of a bucket",
			"s3://Clips?region=a":          "is not the name of a bucket",
			"s3://key:hunter2@clips":       "must not contain keys",
			"s3://clips/folder?region=eu":  "a folder in a bucket cannot be used",
			"s3://clips":                   "it names no region: Amazon S3 needs one",
			"s3://clips?regoin=eu":         `no option "regoin": there are class, links, endpoint, region and addressing`,
			"gs://clips?region=eu":         `no option "region": there are class, links`,
			"s3://clips?region=eu&region=": `its option "region" is given 2 times`,
			"s3://clips?region=a/b":        "the name of a region",
			"s3://clips?region=a&links=no": "it must be auto or api",
			"gs://clips?class=cheap":       "the name of a storage class",
			"s3://clips?addressing=dns":    "it must be auto or path or host",
			"s3://clips?endpoint=minio":    "an http or https URL without path and user",
			"s3://clips?endpoint=https://u:hunter2@minio": "an http or https URL without path and user",
			"s3://clips?a=%zz":                            "its options must be written as in a URL",
		} {
			_, err := blob.ParsePlace(text)
			require.ErrorContains(t, err, says, text)
			require.NotContains(t, err.Error(), "hunter2")
		}
	})
}

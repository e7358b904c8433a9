package blob_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/stretchr/testify/require"
)

func TestCDN(t *testing.T) {
	t.Parallel()

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	ofCloudFront := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	const ofCloudCDN = "nZtRohdNF9m3cKM24IcK4w==\n"
	write := func(t *testing.T, text string) string {
		file := filepath.Join(t.TempDir(), "cdn.key")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	folders := []string{"artifacts/", "inputs/"}
	open := func(t *testing.T, cdn blob.CDN) *blob.Store {
		require.NoError(t, cdn.Check())
		return openS3(t, blob.Config{Place: s3Bucket(t), CDN: cdn})
	}

	t.Run("OfAmazonGetsLinksThatItsPublicKeyVerifies", func(t *testing.T) {
		t.Parallel()
		s := open(t, blob.CDN{
			URL: "https://d111111abcdef8.cloudfront.net/", KeyName: "K2JCJMDEHXQW5F", KeyFile: write(t, ofCloudFront), Folders: folders,
		})

		link, err := s.LinkDownload(t.Context(), "artifacts/ab/clip one", "föx.mp4", time.Hour)

		require.NoError(t, err)
		u, err := url.Parse(string(link))
		require.NoError(t, err)
		require.Equal(t, "https://d111111abcdef8.cloudfront.net", s.Origin())
		require.Equal(t, "/artifacts/ab/clip one", u.Path)
		query := u.Query()
		require.Equal(t, "K2JCJMDEHXQW5F", query.Get("Key-Pair-Id"))
		require.Equal(t, "attachment; filename*=utf-8''f%C3%B6x.mp4", query.Get("response-content-disposition"))
		resource, _, _ := strings.Cut(string(link), "&Expires=")
		policy := fmt.Sprintf(`{"Statement":[{"Resource":"%s","Condition":{"DateLessThan":{"AWS:EpochTime":%s}}}]}`, resource,
			query.Get("Expires"))
		signature, err := base64.StdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "=", "~", "/").Replace(query.Get("Signature")))
		require.NoError(t, err)
		digest := sha1.Sum([]byte(policy))
		require.NoError(t, rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA1, digest[:], signature))
	})

	t.Run("OfGoogleGetsLinksSignedAsInItsExamples", func(t *testing.T) {
		t.Parallel()
		key := write(t, ofCloudCDN)
		for plain, signed := range map[string]string{ // the key and the signatures are from Google's samples
			"http://35.186.234.33/index.html": "?Expires=1558131350&KeyName=my-key&Signature=fm6JZSmKNsB5sys8VGr-JE4LiiE=",
			"https://www.google.com/":         "?Expires=1549751401&KeyName=my-key&Signature=M_QO7BGHi2sGqrJO-MDr0uhDFuc=",
			"https://www.example.com/some/path?some=query&another=param": "&Expires=1549751461&KeyName=my-key" +
				"&Signature=sTqqGX5hUJmlRJ84koAIhWW_c3M=",
		} {
			_, rest, _ := strings.Cut(signed, "Expires=")
			text, _, _ := strings.Cut(rest, "&")
			expires, err := strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
			got, err := blob.SignCDN(key, plain, "my-key", time.Unix(expires, 0))
			require.NoError(t, err)
			require.Equal(t, plain+signed, got)
		}
	})

	t.Run("ServesNoCheckpoints", func(t *testing.T) {
		t.Parallel()
		s := open(t, blob.CDN{URL: "https://cdn.example", KeyName: "my-key", KeyFile: write(t, ofCloudCDN), Folders: folders})

		video, err := s.LinkDownload(t.Context(), "artifacts/clip", "", time.Hour)
		require.NoError(t, err)
		checkpoint, err := s.LinkDownload(t.Context(), "checkpoints/clip", "", time.Hour)
		require.NoError(t, err)

		require.True(t, strings.HasPrefix(string(video), "https://cdn.example/artifacts/clip?"), video)
		require.True(t, strings.HasPrefix(string(checkpoint), s3.Endpoint()), checkpoint)
	})

	t.Run("MayGetANewKeyWithoutARestart", func(t *testing.T) {
		t.Parallel()
		file := write(t, ofCloudCDN)
		s := open(t, blob.CDN{URL: "https://cdn.example", KeyName: "my-key", KeyFile: file, Folders: folders})
		first, err := s.LinkDownload(t.Context(), "artifacts/clip", "", time.Hour)
		require.NoError(t, err)
		require.Contains(t, first, "KeyName=my-key")

		require.NoError(t, os.WriteFile(file, []byte(ofCloudFront), 0o600))
		require.NoError(t, os.Chtimes(file, time.Now().Add(time.Hour), time.Now().Add(time.Hour)))
		second, err := s.LinkDownload(t.Context(), "artifacts/clip", "", time.Hour)
		require.NoError(t, err)
		require.Contains(t, second, "Key-Pair-Id=my-key")

		require.NoError(t, os.WriteFile(file, []byte("half"), 0o600))
		require.NoError(t, os.Chtimes(file, time.Now().Add(2*time.Hour), time.Now().Add(2*time.Hour)))
		third, err := s.LinkDownload(t.Context(), "artifacts/clip", "", time.Hour)
		require.NoError(t, err, "a file that is being written does not stop links")
		require.Contains(t, third, "Key-Pair-Id=my-key")
	})

	t.Run("IsRefusedWithAReason", func(t *testing.T) {
		t.Parallel()
		good := blob.CDN{URL: "https://cdn.example", KeyName: "my-key", KeyFile: write(t, ofCloudCDN)}
		for says, spoil := range map[string]func(*blob.CDN){
			"REELAY_CDN is not set, but":             func(c *blob.CDN) { c.URL = "" },
			"REELAY_CDN must be the URL":             func(c *blob.CDN) { c.URL = "cdn.example" },
			"REELAY_CDN must be the URL of a CDN":    func(c *blob.CDN) { c.URL = "https://cdn.example/videos" },
			"REELAY_CDN_KEY_NAME must be":            func(c *blob.CDN) { c.KeyName = "my key" },
			"no such file":                           func(c *blob.CDN) { c.KeyFile = "/nowhere" },
			"REELAY_CDN_KEY_FILE must be a PEM file": func(c *blob.CDN) { c.KeyFile = write(t, "hunter2") },
		} {
			cdn := good
			spoil(&cdn)
			err := cdn.Check()
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "hunter2")
		}
		require.NoError(t, blob.CDN{}.Check())
	})
}

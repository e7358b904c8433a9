package blob_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

// openS3 opens a store at place with the server's keys.
func openS3(t *testing.T, config blob.Config) *blob.Store {
	config.LinkKeys = blob.OneKey(linkKey)
	if config.Keys == nil {
		config.Keys = s3Keys()
	}
	store, err := blob.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// newS3 opens a store in a bucket of its own, whose links lead to the bucket.
func newS3(t *testing.T) *blob.Store {
	store := openS3(t, blob.Config{Place: s3Bucket(t)})
	require.NoError(t, store.Prove(t.Context()))
	return store
}

// upload signs a link to the bucket.
func upload(t *testing.T, s *blob.Store, u jobs.Upload) jobs.UploadLink {
	link, err := s.LinkUpload(t.Context(), u, time.Hour)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(link.Link), "http://127.0.0.1:"), "the link leads to %s", link.Link)
	return link
}

// TestS3 is about links that lead to a bucket of a real server, which checks their signatures.
func TestS3(t *testing.T) {
	t.Parallel()

	t.Run("StoresTheAnnouncedObject", func(t *testing.T) {
		t.Parallel()
		s := newS3(t)

		status, answer := send(t, upload(t, s, video("artifacts/ab/clip one.mp4", "one clip")), strings.NewReader("one clip"))
		require.Equal(t, http.StatusOK, status, answer)

		object, err := s.Stat(t.Context(), "artifacts/ab/clip one.mp4")
		require.NoError(t, err)
		require.Equal(t, jobs.Object{SizeBytes: 8, Checksum: checksum("one clip"), ContentType: "video/mp4"}, object)
		link, err := s.LinkDownload(t.Context(), "artifacts/ab/clip one.mp4", "föx.mp4", time.Hour)
		require.NoError(t, err)
		response, content := get(t, http.MethodGet, string(link), "Range", "bytes=4-6")
		require.Equal(t, http.StatusPartialContent, response.StatusCode)
		require.Equal(t, "cli", content)
		require.Equal(t, "attachment; filename*=utf-8''f%C3%B6x.mp4", response.Header.Get("Content-Disposition"))
	})

	t.Run("StoresOnlyWhatALinkIsFor", func(t *testing.T) {
		t.Parallel()
		s := newS3(t)
		for name, spoil := range map[string]func(l *jobs.UploadLink, body *string){
			"another content":        func(_ *jobs.UploadLink, body *string) { *body = "two clip" },
			"a longer content":       func(_ *jobs.UploadLink, body *string) { *body += "s" },
			"another type":           func(l *jobs.UploadLink, _ *string) { l.Headers["content-type"] = "text/html" },
			"another checksum":       func(l *jobs.UploadLink, _ *string) { l.Headers["x-amz-checksum-crc32c"] = checksum("two clip") },
			"the leave to overwrite": func(l *jobs.UploadLink, _ *string) { delete(l.Headers, "if-none-match") },
			"another key": func(l *jobs.UploadLink, _ *string) {
				l.Link = jobs.Link(strings.Replace(string(l.Link), "clip", "clap", 1))
			},
			"another method":            func(l *jobs.UploadLink, _ *string) { l.Method = http.MethodDelete },
			"a checksum of no checksum": func(l *jobs.UploadLink, _ *string) { delete(l.Headers, "x-amz-checksum-crc32c") },
		} {
			link, body := upload(t, s, video("clip", "one clip")), "one clip"
			spoil(&link, &body)

			status, answer := send(t, link, strings.NewReader(body))

			require.GreaterOrEqual(t, status, 400, "%s: %s", name, answer)
			_, err := s.Stat(t.Context(), "clip")
			require.ErrorIs(t, err, jobs.ErrNoObject, name)
		}
	})

	t.Run("NeverOverwrites", func(t *testing.T) {
		t.Parallel()
		s := newS3(t)
		link := upload(t, s, video("clip", "first"))
		status, answer := send(t, link, strings.NewReader("first"))
		require.Equal(t, http.StatusOK, status, answer)

		again, _ := send(t, link, strings.NewReader("first"))
		other, _ := send(t, upload(t, s, video("clip", "other")), strings.NewReader("other"))
		err := s.Write(t.Context(), video("clip", "third"), []byte("third"))

		require.Equal(t, http.StatusPreconditionFailed, again)
		require.Equal(t, http.StatusPreconditionFailed, other)
		require.ErrorContains(t, err, "stored already")
	})

	t.Run("LeadsUploadsToTheAPIUntilTheBucketHasProvedItsTerms", func(t *testing.T) {
		t.Parallel()
		s := openS3(t, blob.Config{Place: s3Bucket(t)})

		before, err := s.LinkUpload(t.Context(), video("clip", "one clip"), time.Hour)
		require.NoError(t, err)
		require.NoError(t, s.Prove(t.Context()))
		after, err := s.LinkUpload(t.Context(), video("clip", "one clip"), time.Hour)
		require.NoError(t, err)

		require.True(t, strings.HasPrefix(string(before.Link), "/objects/clip?"), before.Link)
		require.True(t, strings.HasPrefix(string(after.Link), s3.Endpoint()), after.Link)
		objects, err := s.List(t.Context(), "", 10)
		require.NoError(t, err)
		require.Empty(t, objects, "what the proof wrote")
	})

	t.Run("LeadsLargeUploadsToTheAPI", func(t *testing.T) {
		t.Parallel()
		s := newS3(t)
		u := video("clip", "")
		u.SizeBytes = 5<<30 + 1

		link, err := s.LinkUpload(t.Context(), u, time.Hour)

		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(link.Link), "/objects/clip?"), "Amazon stores 5 GiB with one request: %s", link.Link)
	})

	t.Run("StoresLargeObjectsInParts", func(t *testing.T) {
		t.Parallel()
		s := newS3(t)
		s.LimitSinglePut(1 << 20)
		content := strings.Repeat("clip", 5<<20)

		err := s.Write(t.Context(), video("clip", content), []byte(content))
		again := s.Write(t.Context(), video("clip", content), []byte(content))

		require.NoError(t, err)
		require.ErrorContains(t, again, "stored already")
		object, err := s.Stat(t.Context(), "clip")
		require.NoError(t, err)
		require.Equal(t, jobs.Object{SizeBytes: 20 << 20, Checksum: checksum(content), ContentType: "video/mp4"}, object)
	})

	t.Run("HashesObjectsThatOtherProgramsStored", func(t *testing.T) {
		t.Parallel()
		place := s3Bucket(t)
		s := newS3(t)
		folder, err := filepath.Glob(filepath.Join(s3Folder, "buckets", place.Bucket))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder[0], "clip"), []byte("one clip"), 0o600))

		object, err := s.Stat(t.Context(), "clip")

		require.NoError(t, err)
		require.Equal(t, checksum("one clip"), object.Checksum)
	})

	t.Run("KeepsCheckpointsInABucketOfTheirOwn", func(t *testing.T) {
		t.Parallel()
		main, fast := s3Bucket(t), s3Bucket(t)
		fast.Bucket += "-fast"
		require.NoError(t, s3.MakeBucket(fast.Bucket))
		before := openS3(t, blob.Config{Place: main})
		require.NoError(t, before.Write(t.Context(), video("checkpoints/old", "old"), []byte("old")))
		s := openS3(t, blob.Config{Place: main, Folders: map[string]blob.Place{"checkpoints/": fast}})
		require.NoError(t, s.Prove(t.Context()))

		for _, key := range []string{"artifacts/a", "checkpoints/b", "inputs/c"} {
			status, answer := send(t, upload(t, s, video(key, key)), strings.NewReader(key))
			require.Equal(t, http.StatusOK, status, answer)
		}

		all, err := s.List(t.Context(), "", 10)
		require.NoError(t, err)
		require.Equal(t, []string{"artifacts/a", "checkpoints/b", "checkpoints/old", "inputs/c"}, keysOf(all))
		page, err := s.List(t.Context(), "artifacts/a", 2)
		require.NoError(t, err)
		require.Equal(t, []string{"checkpoints/b", "checkpoints/old"}, keysOf(page))
		_, err = before.Stat(t.Context(), "checkpoints/b")
		require.ErrorIs(t, err, jobs.ErrNoObject)
		_, err = s.Stat(t.Context(), "checkpoints/b")
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), "checkpoints/old"), "of the time before the second bucket")
		require.NoError(t, s.Delete(t.Context(), "checkpoints/b"))
		all, err = s.List(t.Context(), "", 10)
		require.NoError(t, err)
		require.Equal(t, []string{"artifacts/a", "inputs/c"}, keysOf(all))
	})

	t.Run("ReadsItsKeysAgainWhenTheirFileChanges", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "credentials")
		write := func(access, secret string, changed time.Time) {
			text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", access, secret)
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			require.NoError(t, os.Chtimes(file, changed, changed))
		}
		place := s3Bucket(t)
		write("old", "wrong", time.Now().Add(-time.Hour))
		s := openS3(t, blob.Config{Place: place, Keys: blob.KeysIn(file)})
		_, err := s.Stat(t.Context(), "clip")
		require.Error(t, err)
		require.NotErrorIs(t, err, jobs.ErrNoObject)

		access, secret := s3.Keys()
		write(access, secret, time.Now())

		_, err = s.Stat(t.Context(), "clip")
		require.ErrorIs(t, err, jobs.ErrNoObject)
	})

	t.Run("SaysWhatIsWrongWithTheBucketAndTheKeys", func(t *testing.T) {
		t.Parallel()
		place := s3Bucket(t)
		missing := place
		missing.Bucket = "no-such-bucket"
		access, _ := s3.Keys()
		for says, config := range map[string]blob.Config{
			"create the bucket, or correct its name":         {Place: missing},
			"SignatureDoesNotMatch (the secret key is wrong": {Place: place, Keys: credentials.NewStaticV4(access, "hunter2", "")},
			"(the store does not know this access key":       {Place: place, Keys: credentials.NewStaticV4("nobody", "hunter2", "")},
		} {
			err := openS3(t, config).Prove(t.Context())
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "X-Amz-Signature")
		}
		_, err := openS3(t, blob.Config{Place: missing}).Stat(t.Context(), "clip")
		require.ErrorContains(t, err, "no such bucket")
		require.NotErrorIs(t, err, jobs.ErrNoObject, "a video is not lost because a bucket is misnamed")
	})

	t.Run("SignsForTheStorageClass", func(t *testing.T) {
		t.Parallel()
		place := s3Bucket(t)
		place.Class = "STANDARD_IA"
		s := openS3(t, blob.Config{Place: place})
		link, headers := s.DirectUpload(t, video("clip", "one clip"))

		require.Equal(t, "STANDARD_IA", headers["x-amz-storage-class"])
		parsed, err := url.Parse(link)
		require.NoError(t, err)
		require.Equal(t, "content-length;content-type;host;if-none-match;x-amz-checksum-crc32c;x-amz-storage-class",
			parsed.Query().Get("X-Amz-SignedHeaders"))
	})
}

func keysOf(objects []jobs.StoredObject) (keys []string) {
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	return keys
}

func TestS3_RefusesAConfigurationWithoutKeys(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/none")

	_, err := blob.Open(t.Context(), blob.Config{
		LinkKeys: blob.OneKey(linkKey), Place: blob.Place{Kind: blob.KindS3, Bucket: "clips", Region: "eu-1"},
	})

	require.ErrorContains(t, err, "there are no keys for S3: set AWS_ACCESS_KEY_ID")
}

// TestS3_OfAnotherStore is about stores that do less than Amazon's, or something else.
func TestS3_OfAnotherStore(t *testing.T) {
	t.Parallel()

	t.Run("LeadsUploadsToTheAPIIfItDoesNotEnforceTheirTerms", func(t *testing.T) {
		t.Parallel()
		lax := &laxStore{objects: map[string]string{}}
		s := lax.open(t)

		require.NoError(t, s.Prove(t.Context()))
		link, err := s.LinkUpload(t.Context(), video("clip", "one clip"), time.Hour)
		require.NoError(t, err)
		found := findings(s.Examine(t.Context()))

		require.True(t, strings.HasPrefix(string(link.Link), "/objects/clip?"), link.Link)
		require.Equal(t, doctor.LevelAdvice, found["bucket-links"].Level)
		for _, lack := range []string{"an object is written once only", "only the announced checksum", "keeps no CRC32C", "no ranges"} {
			require.Contains(t, found["bucket-links"].Found, lack)
		}
		require.Empty(t, lax.objects, "what the proofs wrote")
	})

	t.Run("WithholdsAnUploadWithAWrongChecksumFromIt", func(t *testing.T) {
		t.Parallel()
		lax := &laxStore{objects: map[string]string{}}
		s := serveStore(t, lax.open(t), time.Minute)
		link := s.linkUpload(t, video("clip", "one clip"))

		status, answer := send(t, link, strings.NewReader("two clip"))
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, "CRC32C")
		_, err := s.Stat(t.Context(), "clip")
		require.ErrorIs(t, err, jobs.ErrNoObject)

		status, answer = send(t, link, strings.NewReader("one clip"))
		require.Equal(t, http.StatusOK, status, answer)
		object, err := s.Stat(t.Context(), "clip")
		require.NoError(t, err)
		require.Equal(t, checksum("one clip"), object.Checksum, "which Reelay keeps in the metadata")
		status, _ = send(t, link, strings.NewReader("one clip"))
		require.Equal(t, http.StatusPreconditionFailed, status)
	})

	t.Run("IsReportedWithWhatToDo", func(t *testing.T) {
		t.Parallel()
		for code, says := range map[string]string{
			"AccessDenied":                 "the keys need s3:GetObject",
			"QuotaExceeded":                "the bucket is full",
			"AuthorizationHeaderMalformed": "set region in REELAY_STORE",
			"RequestTimeTooSkewed":         "clocks",
		} {
			lax := &laxStore{objects: map[string]string{}, refuses: code}
			s := lax.open(t)

			require.ErrorContains(t, s.Prove(t.Context()), code+" (", code)
			require.ErrorContains(t, s.Prove(t.Context()), says)
			require.ErrorContains(t, s.Write(t.Context(), video("clip", "one clip"), []byte("one clip")), says)
			require.Contains(t, findings(s.Examine(t.Context()))["bucket-links"].Found, says)
		}
	})

	t.Run("IsAskedAgainIfItIsOverloaded", func(t *testing.T) {
		t.Parallel()
		lax := &laxStore{objects: map[string]string{"clip": "one clip"}}
		s := lax.open(t)
		lax.slow.Store(2)

		object, err := s.Stat(t.Context(), "clip")

		require.NoError(t, err)
		require.Equal(t, int64(8), object.SizeBytes)
		require.Negative(t, lax.slow.Load())
	})

	t.Run("IsReportedIfItDeletesOrKeepsObjectsByItself", func(t *testing.T) {
		t.Parallel()
		lax := &laxStore{objects: map[string]string{}, versions: true, lifecycle: `
			<Rule><ID>a</ID><Status>Enabled</Status><Filter><Prefix>artifacts/</Prefix></Filter><Expiration><Days>7</Days></Expiration></Rule>
			<Rule><ID>b</ID><Status>Enabled</Status><Filter><Prefix>logs/</Prefix></Filter><Expiration><Days>3</Days></Expiration></Rule>
			<Rule><ID>c</ID><Status>Disabled</Status><Filter><Prefix></Prefix></Filter><Expiration><Days>4</Days></Expiration></Rule>
			<Rule><ID>d</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>
				<Transition><Days>9</Days><StorageClass>GLACIER</StorageClass></Transition></Rule>`}

		found := findings(lax.open(t).Examine(t.Context()))["bucket-policy"]

		require.Equal(t, doctor.LevelAdvice, found.Level)
		require.Equal(t, "The bucket clips deletes objects after 7 days, and archives objects after 9 days, and keeps old versions of deleted "+
			"objects without end.", found.Found)
	})

	t.Run("IsNotReportedIfItOnlyTidiesUp", func(t *testing.T) {
		t.Parallel()
		lax := &laxStore{objects: map[string]string{}, versions: true, lifecycle: `
			<Rule><ID>a</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>
				<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule>`}

		found := findings(lax.open(t).Examine(t.Context()))["bucket-policy"]

		require.Equal(t, doctor.LevelOK, found.Level, found.Found)
	})
}

func findings(found []doctor.Finding) map[string]doctor.Finding {
	named := map[string]doctor.Finding{}
	for _, f := range found {
		named[f.Check] = f
	}
	return named
}

package blob_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"
)

func TestLink(t *testing.T) {
	t.Parallel()

	t.Run("IsRefusedIfAnythingInItIsChanged", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "clip", "one clip")
		s.store(t, "secret", "another")
		links := map[string]string{
			http.MethodGet: s.linkDownload(t, "clip"),
			http.MethodPut: string(s.linkUpload(t, video("next", "one clip")).Link),
		}

		for method, link := range links {
			parsed, err := url.Parse(link)
			require.NoError(t, err)
			for name := range parsed.Query() {
				query := parsed.Query()
				query.Set(name, query.Get(name)+"0")
				requireForbidden(t, method, parsed, query)
				query.Del(name)
				requireForbidden(t, method, parsed, query)
			}
			more := parsed.Query()
			more.Set("other", "1")
			requireForbidden(t, method, parsed, more)
			other := *parsed
			other.Path = "/objects/secret"
			requireForbidden(t, method, &other, parsed.Query())
		}
	})

	t.Run("IsForOneMethod", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "clip", "one clip")

		upload := s.linkUpload(t, video("clip", "one clip"))
		read, _ := get(t, http.MethodGet, string(upload.Link))
		looked, _ := get(t, http.MethodHead, string(upload.Link))
		upload.Link = jobs.Link(s.linkDownload(t, "new"))
		written, _ := send(t, upload, strings.NewReader("one clip"))

		require.Equal(t, http.StatusForbidden, read.StatusCode)
		require.Equal(t, http.StatusForbidden, looked.StatusCode)
		require.Equal(t, http.StatusForbidden, written)
	})

	t.Run("Expires", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "clip", "one clip")
		download, err := s.LinkDownload(t.Context(), "clip", "video.mp4", time.Nanosecond)
		require.NoError(t, err)
		upload, err := s.LinkUpload(t.Context(), video("next", "one clip"), time.Nanosecond)
		require.NoError(t, err)

		response, answer := get(t, http.MethodGet, download.At(s.server.URL))
		upload.Link = jobs.Link(upload.Link.At(s.server.URL))
		status, _ := send(t, upload, strings.NewReader("one clip"))

		require.Equal(t, http.StatusForbidden, response.StatusCode)
		require.Contains(t, answer, "expired at "+text.Moment(upload.ExpiresAt.UTC(), time.Now()))
		require.Equal(t, http.StatusForbidden, status)
	})

	t.Run("IsSignedAndCheckedByTheGivenClock", func(t *testing.T) {
		t.Parallel()
		ahead := new(atomic.Int64)
		s := serveAt(t, emulator(t), time.Minute, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		status := func(link string) int {
			response, _ := get(t, http.MethodGet, link)
			return response.StatusCode
		}

		for _, off := range []time.Duration{2 * time.Hour, -2 * time.Hour, 30 * 24 * time.Hour} {
			ahead.Store(int64(off))
			s.store(t, off.String(), "one clip")
			link := s.linkDownload(t, off.String())
			upload := s.linkUpload(t, video("next", "one clip"))

			require.WithinDuration(t, time.Now().Add(off+time.Hour), upload.ExpiresAt, time.Minute)
			require.Equal(t, http.StatusOK, status(link), off)
			ahead.Store(int64(off + 61*time.Minute))
			require.Equal(t, http.StatusForbidden, status(link), off)
		}
	})

	t.Run("IsRefusedIfItEndsTooLate", func(t *testing.T) {
		t.Parallel()
		ahead := new(atomic.Int64)
		s := serveAt(t, emulator(t), time.Minute, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		s.store(t, "clip", "one clip")
		ahead.Store(int64(30 * 24 * time.Hour)) // a process whose clock is wrong signs this link
		link, upload := s.linkDownload(t, "clip"), s.linkUpload(t, video("next", "one clip"))
		ahead.Store(0)

		response, answer := get(t, http.MethodGet, link)
		status, _ := send(t, upload, strings.NewReader("one clip"))

		require.Equal(t, http.StatusForbidden, response.StatusCode)
		require.Contains(t, answer, "more than 7 days from now")
		require.Equal(t, http.StatusForbidden, status)
	})

	t.Run("IsSignedOnlyForValidTerms", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		good := video("clip", "one clip")
		change := func(f func(*jobs.Upload)) jobs.Upload { u := good; f(&u); return u }
		bad := []jobs.Upload{
			change(func(u *jobs.Upload) { u.SizeBytes = -1 }),
			change(func(u *jobs.Upload) { u.Checksum = "AAAA" }),
			change(func(u *jobs.Upload) { u.Checksum += "\n" }),
			change(func(u *jobs.Upload) { u.ContentType = "video/mp4\r\nX: y" }),
		}
		for _, key := range []string{"", "/clip", "a//b", "a/../b", "./a", "a\x00b", "a\nb", `a\b`, "\xff", strings.Repeat("k", 1025)} {
			bad = append(bad, change(func(u *jobs.Upload) { u.Key = key }))
			_, err := s.LinkDownload(t.Context(), key, "", time.Hour)
			require.Error(t, err, "%q", key)
		}

		for _, u := range bad {
			_, err := s.LinkUpload(t.Context(), u, time.Hour)
			require.Error(t, err, "%+v", u)
		}
		for _, ttl := range []time.Duration{-time.Second, 0, 8 * 24 * time.Hour} {
			_, err := s.LinkUpload(t.Context(), good, ttl)
			require.Error(t, err, ttl)
		}
	})
}

// requireForbidden fails the test unless a link is refused, with a message that does not help
// to forge one.
func requireForbidden(t *testing.T, method string, link *url.URL, query url.Values) {
	t.Helper()
	changed := *link
	changed.RawQuery = query.Encode()
	response, answer := get(t, method, changed.String())
	require.Equal(t, http.StatusForbidden, response.StatusCode, changed.String())
	require.Equal(t, fmt.Sprintf("This link is not valid for %s of this object. Use a link exactly as it was given.\n", method), answer)
}

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("RefusesInvalidSettings", func(t *testing.T) {
		t.Parallel()
		good := blob.Config{Place: blob.Place{Kind: blob.KindGoogle, Bucket: "clips"}, EmulatorHost: "127.0.0.1:1", LinkKeys: blob.OneKey(linkKey)}
		cases := map[string]func(*blob.Config){
			"no bucket is named":        func(c *blob.Config) { c.Place.Bucket = "" },
			"must have 32 bytes, not 5": func(c *blob.Config) { c.LinkKeys = blob.OneKey(linkKey[:5]) },
			"address of an emulator":    func(c *blob.Config) { c.EmulatorHost = "http://[" },
		}

		for says, spoil := range cases {
			cfg := good
			spoil(&cfg)
			_, err := blob.Open(t.Context(), cfg)
			require.ErrorContains(t, err, says)
		}
	})
}

// TestGoogleLink checks the URLs as Google Cloud Storage does, but sends nothing there.
func TestGoogleLink(t *testing.T) {
	t.Parallel()

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	store, err := blob.Open(t.Context(), blob.Config{Place: blob.Place{Kind: blob.KindGoogle, Bucket: "clips"}, LinkKeys: blob.OneKey(linkKey)},
		option.WithAuthCredentialsJSON(option.ServiceAccount, serviceAccount(t, key)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })

	t.Run("ContainsTheTermsOfAnUpload", func(t *testing.T) {
		t.Parallel()
		u := video("clips/ab/job_1/clip one.mp4", "one clip")

		link, err := store.LinkUpload(t.Context(), u, time.Hour)

		require.NoError(t, err)
		require.Equal(t, http.MethodPut, link.Method)
		require.Equal(t, map[string]string{
			"content-type":                "video/mp4",
			"x-goog-content-length-range": "8,8",
			"x-goog-hash":                 "crc32c=" + u.Checksum,
			"x-goog-if-generation-match":  "0",
		}, link.Headers)
		require.WithinDuration(t, time.Now().Add(time.Hour), link.ExpiresAt, 5*time.Second)
		requireSigned(t, &key.PublicKey, link.Method, string(link.Link), link.Headers)
	})

	t.Run("NamesTheFileOfADownload", func(t *testing.T) {
		t.Parallel()

		link, err := store.LinkDownload(t.Context(), "clip", "video.mp4", time.Hour)

		require.NoError(t, err)
		parsed := requireSigned(t, &key.PublicKey, http.MethodGet, string(link), nil)
		require.Equal(t, "/clips/clip", parsed.Path)
		require.Equal(t, "attachment; filename=video.mp4", parsed.Query().Get("response-content-disposition"))
	})
}

func serviceAccount(t *testing.T, key *rsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "reelay",
		"client_email": "reelay@example.iam.gserviceaccount.com",
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":    "https://oauth2.googleapis.com/token",
	})
	require.NoError(t, err)
	return account
}

// requireSigned builds the string that Google's V4 signing process prescribes
// from a request with these headers, and checks the signature of link over it.
func requireSigned(t *testing.T, key *rsa.PublicKey, method, link string, headers map[string]string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(link)
	require.NoError(t, err)
	require.Equal(t, "storage.googleapis.com", parsed.Host)
	query := parsed.Query()
	signature, err := hex.DecodeString(query.Get("X-Goog-Signature"))
	require.NoError(t, err)
	query.Del("X-Goog-Signature")

	lines, names := []string{"host:" + parsed.Host}, []string{"host"}
	for name, value := range headers {
		lines, names = append(lines, name+":"+value), append(names, name)
	}
	slices.Sort(lines)
	slices.Sort(names)
	request := strings.Join([]string{
		method, parsed.EscapedPath(), strings.ReplaceAll(query.Encode(), "+", "%20"),
		strings.Join(lines, "\n"), "", strings.Join(names, ";"), "UNSIGNED-PAYLOAD",
	}, "\n")
	_, scope, _ := strings.Cut(query.Get("X-Goog-Credential"), "/")
	signed := fmt.Sprintf("GOOG4-RSA-SHA256\n%s\n%s\n%x", query.Get("X-Goog-Date"), scope, sha256.Sum256([]byte(request)))

	digest := sha256.Sum256([]byte(signed))
	require.NoError(t, rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature))
	return parsed
}

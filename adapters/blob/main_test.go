package blob_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

// emulatorRoot makes this binary run an emulator instead of tests, so that its memory is not
// part of the test's process.
const emulatorRoot = "BLOB_TEST_EMULATOR_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(emulatorRoot); root != "" {
		serveEmulator(root)
		return
	}
	testrun.Main(m.Run)
}

func serveEmulator(root string) {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{StorageRoot: root, Scheme: "http"})
	if err != nil {
		panic(err)
	}
	fmt.Println(server.URL())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent process ends
	server.Stop()
}

// onS3 reports whether these tests use an S3 server in place of an emulator of Google Cloud Storage. All links then
// lead to the handler: TestS3 is about those that lead to the bucket.
func onS3() bool { return os.Getenv("REELAY_TEST_STORE") == "s3" }

// s3 is one server for all tests.
var s3 struct {
	sync.Mutex
	*localstack.S3
}

// s3Folder contains what s3 stores.
var s3Folder string

// s3Bucket returns the place of the test's bucket, which it makes if it is new.
func s3Bucket(t *testing.T) blob.Place {
	s3.Lock()
	defer s3.Unlock()
	if s3.S3 == nil {
		dir, err := os.MkdirTemp("", "s3-")
		require.NoError(t, err)
		s3Folder = dir
		s3.S3, err = localstack.StartS3(context.Background(), localstack.S3Config{Dir: dir, Bucket: "clips"})
		require.NoError(t, err)
		testrun.AtEnd(func() {
			_ = s3.Stop(context.Background())
			_ = os.RemoveAll(dir)
		})
	}
	sum := sha256.Sum256([]byte(t.Name()))
	place := blob.Place{
		Kind: blob.KindS3, Bucket: "test-" + hex.EncodeToString(sum[:8]), Endpoint: s3.Endpoint(), Region: s3.Region(), Addressing: "path",
		Links: blob.LinksAuto,
	}
	require.NoError(t, s3.MakeBucket(place.Bucket))
	return place
}

func s3Keys() *credentials.Credentials {
	access, secret := s3.Keys()
	return credentials.NewStaticV4(access, secret, "")
}

// emulator starts an emulator in this process, or returns the address of the S3 server.
func emulator(t *testing.T) string {
	if onS3() {
		return s3Bucket(t).Endpoint
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{StorageRoot: t.TempDir(), Scheme: "http"})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	return server.URL()
}

// emulatorProcess starts an emulator in another process.
func emulatorProcess(t *testing.T) string {
	if onS3() {
		return emulator(t)
	}
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), emulatorRoot+"="+t.TempDir())
	stdin, err := process.StdinPipe()
	require.NoError(t, err)
	stdout, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = process.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

var linkKey = bytes.Repeat([]byte("k"), 32)

// served is a store and the server of its links.
type served struct {
	*blob.Store
	server *httptest.Server
	// answered receives a value for each request that the handler has finished.
	answered chan struct{}
}

// serve opens a store on an emulator. Its handler gives up a stalled connection after
// stallLimit.
func serve(t *testing.T, emulatorHost string, stallLimit time.Duration) served {
	return serveAt(t, emulatorHost, stallLimit, nil)
}

// serveAt is serve with a clock; nil is the clock of this process.
func serveAt(t *testing.T, emulatorHost string, stallLimit time.Duration, now func() time.Time) served {
	config := blob.Config{
		Place: blob.Place{Kind: blob.KindGoogle, Bucket: "clips"}, EmulatorHost: emulatorHost, LinkKeys: blob.OneKey(linkKey), Now: now,
	}
	if onS3() {
		config.Place, config.Keys = s3Bucket(t), s3Keys()
		config.Place.Endpoint, config.Place.Links = emulatorHost, blob.LinksAPI
	}
	store, err := blob.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Prove(t.Context()))
	return serveStore(t, store, stallLimit)
}

// serveStore serves the links of a store that do not lead to its bucket.
func serveStore(t *testing.T, store *blob.Store, stallLimit time.Duration) served {
	s := served{Store: store, answered: make(chan struct{}, 100)}
	s.server = httptest.NewServer(httpguard.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.answered <- struct{}{} }()
		s.HandlerWithStallLimit(stallLimit).ServeHTTP(w, r)
	}), func(*http.Request) httpguard.Limits { return httpguard.Limits{Stall: stallLimit, Write: stallLimit} }))
	t.Cleanup(s.server.Close)
	return s
}

func newStore(t *testing.T) served { return serve(t, emulator(t), time.Minute) }

func checksum(content string) string {
	sum := crc32.Checksum([]byte(content), crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func video(key, content string) jobs.Upload {
	return jobs.Upload{Key: key, ContentType: "video/mp4", SizeBytes: int64(len(content)), Checksum: checksum(content)}
}

// linkUpload signs a link for u that is valid for an hour.
func (s served) linkUpload(t *testing.T, u jobs.Upload) jobs.UploadLink {
	link, err := s.LinkUpload(t.Context(), u, time.Hour)
	require.NoError(t, err)
	link.Link = jobs.Link(link.Link.At(s.server.URL))
	return link
}

func (s served) linkDownload(t *testing.T, key string) string {
	link, err := s.LinkDownload(t.Context(), key, "video.mp4", time.Hour)
	require.NoError(t, err)
	return link.At(s.server.URL)
}

// store uploads content under key.
func (s served) store(t *testing.T, key, content string) {
	status, answer := send(t, s.linkUpload(t, video(key, content)), strings.NewReader(content))
	require.Equal(t, http.StatusOK, status, answer)
}

// send uses an upload link with body.
func send(t *testing.T, link jobs.UploadLink, body io.Reader) (int, string) {
	request, err := http.NewRequestWithContext(t.Context(), link.Method, string(link.Link), body)
	require.NoError(t, err)
	for name, value := range link.Headers {
		request.Header.Set(name, value)
	}
	response, answer := do(t, request)
	return response.StatusCode, answer
}

// get reads a link, with request headers in pairs.
func get(t *testing.T, method, link string, headers ...string) (*http.Response, string) {
	request, err := http.NewRequestWithContext(t.Context(), method, link, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return do(t, request)
}

func do(t *testing.T, request *http.Request) (*http.Response, string) {
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(answer)
}

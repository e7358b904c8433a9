package blob_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

func TestUpload(t *testing.T) {
	t.Parallel()

	t.Run("StoresTheAnnouncedObject", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)

		s.store(t, "clips/ab/job_1/clip one.mp4", "one clip")

		object, err := s.Stat(t.Context(), "clips/ab/job_1/clip one.mp4")
		require.NoError(t, err)
		require.Equal(t, jobs.Object{SizeBytes: 8, Checksum: checksum("one clip"), ContentType: "video/mp4"}, object)
	})

	t.Run("StoresAnEmptyObject", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)

		s.store(t, "log", "")

		object, err := s.Stat(t.Context(), "log")
		require.NoError(t, err)
		require.Equal(t, jobs.Object{Checksum: checksum(""), ContentType: "video/mp4"}, object)
	})

	t.Run("NeverOverwrites", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		link := s.linkUpload(t, video("clip", "first"))
		status, answer := send(t, link, strings.NewReader("first"))
		require.Equal(t, http.StatusOK, status, answer)

		again, _ := send(t, link, strings.NewReader("first"))
		other, answer := send(t, s.linkUpload(t, video("clip", "second")), strings.NewReader("second"))

		require.Equal(t, http.StatusPreconditionFailed, again)
		require.Equal(t, http.StatusPreconditionFailed, other)
		require.Contains(t, answer, "never overwritten")
		_, stored := get(t, http.MethodGet, s.linkDownload(t, "clip"))
		require.Equal(t, "first", stored)
	})

	t.Run("SendsASmallUploadWithoutAskingFirst", func(t *testing.T) {
		t.Parallel()
		s, f := newFaulty(t, time.Minute)
		link := s.linkUpload(t, video("clip", "a clip"))
		before := f.calls.Load()

		status, answer := send(t, link, strings.NewReader("a clip"))

		require.Equal(t, http.StatusOK, status, answer)
		require.Equal(t, before+1, f.calls.Load())
	})

	t.Run("RefusesAnExistingKeyBeforeTheBytesAreSent", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		content := strings.Repeat("x", 1<<20)
		link := s.linkUpload(t, video("clip", content))
		status, answer := send(t, link, strings.NewReader(content))
		require.Equal(t, http.StatusOK, status, answer)
		unsent, never := io.Pipe()
		defer never.Close()
		request, err := http.NewRequestWithContext(t.Context(), link.Method, string(link.Link), unsent)
		require.NoError(t, err)
		request.ContentLength = int64(len(content))
		request.Header.Set("Content-Type", "video/mp4")

		again, answer := do(t, request)

		require.Equal(t, http.StatusPreconditionFailed, again.StatusCode)
		require.Contains(t, answer, "never overwritten")
	})

	t.Run("RefusesTwoContentTypes", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		link := s.linkUpload(t, video("clip", "a clip"))
		request, err := http.NewRequestWithContext(t.Context(), link.Method, string(link.Link), strings.NewReader("a clip"))
		require.NoError(t, err)
		request.Header["Content-Type"] = []string{"video/mp4", "text/html"}

		refused, answer := do(t, request)

		require.Equal(t, http.StatusBadRequest, refused.StatusCode)
		require.Contains(t, answer, "one Content-Type")
	})

	t.Run("StoresOneOfManyConcurrentUploads", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		const racers = 16
		var ready, done sync.WaitGroup
		ready.Add(racers)
		won, statuses := make(chan string, racers), make(chan int, racers)

		for i := range racers {
			content := fmt.Sprintf("clip %2d%*s", i, blob.SmallUpload, "")
			link := s.linkUpload(t, video("clip", content))
			// The server asks for the body once it has found the key unused.
			link.Headers["Expect"] = "100-continue"
			body := &lateBody{Reader: strings.NewReader(content), ready: &ready}
			done.Go(func() {
				status, err := race(link, body, len(content))
				if err != nil {
					t.Error(err)
				}
				if status == http.StatusOK {
					won <- content
				}
				statuses <- status
			})
		}
		done.Wait()
		close(statuses)

		count := map[int]int{}
		for status := range statuses {
			count[status]++
		}
		require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusPreconditionFailed: racers - 1}, count)
		_, stored := get(t, http.MethodGet, s.linkDownload(t, "clip"))
		require.Equal(t, <-won, stored)
	})
}

// lateBody delivers its first byte when all uploads are ready to.
type lateBody struct {
	io.Reader
	ready *sync.WaitGroup
	once  sync.Once
}

func (b *lateBody) Read(p []byte) (int, error) {
	b.once.Do(func() {
		b.ready.Done()
		b.ready.Wait()
	})
	return b.Reader.Read(p)
}

func race(link jobs.UploadLink, body io.Reader, size int) (int, error) {
	request, err := http.NewRequest(link.Method, string(link.Link), body)
	if err != nil {
		return 0, err
	}
	request.ContentLength = int64(size)
	for name, value := range link.Headers {
		request.Header.Set(name, value)
	}
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestUpload_Refuses(t *testing.T) {
	t.Parallel()

	const content = "one clip"
	unsized := func(link *jobs.UploadLink) io.Reader { return io.MultiReader(strings.NewReader(content)) }
	body := func(body string) func(*jobs.UploadLink) io.Reader {
		return func(*jobs.UploadLink) io.Reader { return strings.NewReader(body) }
	}
	cases := map[string]struct {
		request func(*jobs.UploadLink) io.Reader
		status  int
		says    string
	}{
		"ABodyWithoutLength": {unsized, http.StatusLengthRequired, "must state its Content-Length: this link is for 8 bytes"},
		"AShorterBody":       {body("one"), http.StatusBadRequest, "8 bytes, not for 3"},
		"ALongerBody":        {body(content + "!"), http.StatusRequestEntityTooLarge, "8 bytes, not for 9"},
		"BytesOfOtherChecksum": {body("two clip"), http.StatusBadRequest, "CRC32C " + checksum("two clip") + ", but this link is for " +
			checksum(content)},
		"AnotherContentType": {func(l *jobs.UploadLink) io.Reader {
			l.Headers["content-type"] = "text/html"
			return strings.NewReader(content)
		}, http.StatusBadRequest, `"video/mp4", not for "text/html"`},
		"APartOfAnObject": {func(l *jobs.UploadLink) io.Reader {
			l.Headers["content-range"] = "bytes 0-7/100"
			return strings.NewReader(content)
		}, http.StatusBadRequest, "without a Content-Range"},
		"AnEncodedBody": {func(l *jobs.UploadLink) io.Reader {
			l.Headers["content-encoding"] = "gzip"
			return strings.NewReader(content)
		}, http.StatusUnsupportedMediaType, "without a Content-Encoding"},
		"AMethodThatIsNoUpload": {func(l *jobs.UploadLink) io.Reader { l.Method = http.MethodPost; return strings.NewReader(content) },
			http.StatusMethodNotAllowed, "stored by PUT"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			link := s.linkUpload(t, video("clip", content))
			broken := jobs.UploadLink{Link: link.Link, Method: link.Method, Headers: map[string]string{"content-type": "video/mp4"}}
			request := c.request(&broken)

			status, answer := send(t, broken, request)

			require.Equal(t, c.status, status)
			require.Contains(t, answer, c.says)
			_, err := s.Stat(t.Context(), "clip")
			require.ErrorIs(t, err, jobs.ErrNoObject)
			status, answer = send(t, link, strings.NewReader(content))
			require.Equal(t, http.StatusOK, status, "the link must still be good: %s", answer)
		})
	}
}

// dial sends the head of an upload over a raw connection, and the given part of its body.
func dial(t *testing.T, link jobs.UploadLink, size int, part string) *net.TCPConn {
	target, err := url.Parse(string(link.Link))
	require.NoError(t, err)
	conn, err := net.Dial("tcp", target.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Type: video/mp4\r\nContent-Length: %d\r\n\r\n%s",
		target.RequestURI(), target.Host, size, part)
	require.NoError(t, err)
	return conn.(*net.TCPConn)
}

func answerOn(t *testing.T, conn net.Conn) (int, string) {
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(answer)
}

func TestUpload_LeavesNothing(t *testing.T) {
	t.Parallel()

	content := strings.Repeat("clip", 100_000)

	t.Run("WhenTheConnectionBreaks", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		link := s.linkUpload(t, video("clip", content))

		require.NoError(t, dial(t, link, len(content), content[:300_000]).Close())
		<-s.answered

		_, err := s.Stat(t.Context(), "clip")
		require.ErrorIs(t, err, jobs.ErrNoObject)
		status, answer := send(t, link, strings.NewReader(content))
		require.Equal(t, http.StatusOK, status, answer)
	})

	t.Run("WhenTheSenderStalls", func(t *testing.T) {
		t.Parallel()
		s := serve(t, emulator(t), 100*time.Millisecond)
		link := s.linkUpload(t, video("clip", content))

		status, answer := answerOn(t, dial(t, link, len(content), content[:300_000]))

		require.Equal(t, http.StatusRequestTimeout, status)
		require.Contains(t, answer, "stalled after 300000 of 400000 bytes")
		_, err := s.Stat(t.Context(), "clip")
		require.ErrorIs(t, err, jobs.ErrNoObject)
	})

	t.Run("WhenTheSenderEndsEarly", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		link := s.linkUpload(t, video("clip", content))

		conn := dial(t, link, len(content), content[:300_000])
		require.NoError(t, conn.CloseWrite())
		status, answer := answerOn(t, conn)

		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, "ended after 300000 of 400000 bytes")
		_, err := s.Stat(t.Context(), "clip")
		require.ErrorIs(t, err, jobs.ErrNoObject)
	})
}

// TestStream is not parallel: it measures the memory of the whole process.
func TestStream(t *testing.T) {
	t.Run("NeedsLittleMemoryForALargeObject", func(t *testing.T) {
		s := serve(t, emulatorProcess(t), time.Minute)
		const size = 64 << 20
		content := strings.Repeat("reel", size/4)
		upload := s.linkUpload(t, video("clip", content))
		download := s.linkDownload(t, "clip")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)

		status, answer := send(t, upload, strings.NewReader(content))
		response, err := http.Get(download)
		require.NoError(t, err)
		defer response.Body.Close()
		read, err := io.Copy(io.Discard, response.Body)

		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		require.Equal(t, http.StatusOK, status, answer)
		require.EqualValues(t, size, read)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "bytes allocated, all in all")
	})
}

package blob_test

import (
	"mime"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

func TestDownload(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsTheObjectAndItsMetadata", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "clip", "one clip")
		link, err := s.LinkDownload(t.Context(), "clip", "föx & \"hare\".mp4", 1e12)
		require.NoError(t, err)

		response, content := get(t, http.MethodGet, link.At(s.server.URL))
		head, nothing := get(t, http.MethodHead, link.At(s.server.URL))

		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "one clip", content)
		_, params, err := mime.ParseMediaType(response.Header.Get("Content-Disposition"))
		require.NoError(t, err)
		require.Equal(t, "föx & \"hare\".mp4", params["filename"])
		for name, value := range map[string]string{
			"Accept-Ranges": "bytes", "Content-Type": "video/mp4", "Content-Length": "8",
			"X-Goog-Hash": "crc32c=" + checksum("one clip"), "X-Content-Type-Options": "nosniff",
			"Cache-Control": "private, max-age=0",
		} {
			require.Equal(t, value, response.Header.Get(name), name)
			require.Equal(t, value, head.Header.Get(name), name)
		}
		require.Empty(t, nothing)
	})

	t.Run("ReturnsTheRequestedRange", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "clip", "0123456789")
		link := s.linkDownload(t, "clip")

		for asked, want := range map[string]string{
			"bytes=0-3": "0123", "bytes=4-": "456789", "bytes=-2": "89", "bytes=8-100": "89", "bytes=-100": "0123456789",
			"Bytes=8-99999999999999999999": "89", "bytes=-99999999999999999999": "0123456789",
		} {
			response, content := get(t, http.MethodGet, link, "Range", asked)
			require.Equal(t, http.StatusPartialContent, response.StatusCode, asked)
			require.Equal(t, want, content, asked)
		}
		for _, ignored := range []string{
			"bytes=0-0,2-2,4-4", "bytes=" + strings.Repeat("0-0,", 5_000) + "0-0",
			"bytes=5-3", "bytes=-", "bytes=", "bytes=a-b", "bytes=0-3x", "bytes=--2", "bytes", "items=0-3", "bytes=+0-3",
		} {
			whole, content := get(t, http.MethodGet, link, "Range", ignored)
			require.Equal(t, http.StatusOK, whole.StatusCode, ignored)
			require.Equal(t, "0123456789", content)
		}
		for _, outside := range []string{"bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-",
			"bytes=99999999999999999998-99999999999999999999"} {
			response, _ := get(t, http.MethodGet, link, "Range", outside)
			require.Equal(t, http.StatusRequestedRangeNotSatisfiable, response.StatusCode, outside)
			require.Equal(t, "bytes */10", response.Header.Get("Content-Range"), outside)
		}
		head, _ := get(t, http.MethodHead, link, "Range", "bytes=0-3")
		require.Equal(t, http.StatusOK, head.StatusCode, "a range is one of a GET")
	})

	t.Run("ResumesOnlyTheSameObject", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "clip", "0123456789")
		link := s.linkDownload(t, "clip")
		first, _ := get(t, http.MethodGet, link, "Range", "bytes=0-3")
		tag := first.Header.Get("ETag")

		same, rest := get(t, http.MethodGet, link, "Range", "bytes=4-", "If-Range", tag)
		other, whole := get(t, http.MethodGet, link, "Range", "bytes=4-", "If-Range", `"another"`)
		known, _ := get(t, http.MethodGet, link, "If-None-Match", tag)

		require.Equal(t, http.StatusPartialContent, same.StatusCode)
		require.Equal(t, "456789", rest)
		require.Equal(t, http.StatusOK, other.StatusCode)
		require.Equal(t, "0123456789", whole)
		require.Equal(t, http.StatusNotModified, known.StatusCode)
	})

	t.Run("ReportsAMissingObject", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)

		response, answer := get(t, http.MethodGet, s.linkDownload(t, "clip"))

		require.Equal(t, http.StatusNotFound, response.StatusCode)
		require.Contains(t, answer, "There is no such object")
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()

	t.Run("CanBeRepeated", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "clip", "one clip")

		require.NoError(t, s.Delete(t.Context(), "clip"))
		require.NoError(t, s.Delete(t.Context(), "clip"))

		_, err := s.Stat(t.Context(), "clip")
		require.ErrorIs(t, err, jobs.ErrNoObject)
	})
}

func TestList(t *testing.T) {
	t.Parallel()

	t.Run("PagesThroughAllObjectsInKeyOrder", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		begun := time.Now()
		for _, key := range []string{"b/2", "a", "b/1", "c"} {
			s.store(t, key, "clip "+key)
		}

		first, err := s.List(t.Context(), "", 3)
		require.NoError(t, err)
		rest, err := s.List(t.Context(), "b/2", 3)
		require.NoError(t, err)
		none, err := s.List(t.Context(), "c", 3)
		require.NoError(t, err)

		var keys []string
		for _, object := range append(first, rest...) {
			keys = append(keys, object.Key)
			require.Equal(t, int64(len("clip "+object.Key)), object.SizeBytes)
			require.WithinRange(t, object.CreatedAt, begun.Add(-time.Second), time.Now().Add(time.Second))
		}
		require.Equal(t, []string{"a", "b/1", "b/2", "c"}, keys)
		require.Len(t, rest, 1)
		require.Empty(t, none)
	})

	t.Run("ContinuesAfterADeletedKey", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		s.store(t, "a", "clip")
		s.store(t, "c", "clip")

		after, err := s.List(t.Context(), "b", 1)

		require.NoError(t, err)
		require.Len(t, after, 1)
		require.Equal(t, "c", after[0].Key)
	})
}

package media_test

import (
	"testing"

	"github.com/reelay/reelay/internal/media"
	"github.com/stretchr/testify/require"
)

// heads are the beginnings of files.
var heads = map[string]string{
	"video/mp4":   "\x00\x00\x00\x20ftypisom\x00\x00\x02\x00",
	"video/webm":  "\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm",
	"audio/mpeg":  "\xff\xfb\x90\x64",
	"audio/mp4":   "\x00\x00\x00\x20ftypM4A \x00\x00\x02\x00",
	"audio/wav":   "RIFF\x24\x00\x00\x00WAVEfmt ",
	"audio/x-wav": "RF64\xff\xff\xff\xffWAVEds64",
	"audio/flac":  "fLaC\x00\x00\x00\x22",
	"audio/ogg":   "OggS\x00\x02",
}

func TestCheck(t *testing.T) {
	t.Parallel()

	fault := media.Fault("")
	for _, contentType := range media.ContentTypes {
		require.NoError(t, media.Check(contentType, []byte(heads[contentType])), contentType)
		for _, other := range []string{"", "f", "hello, this is text", "<!doctype html>", "\x89PNG\r\n\x1a\n", "\x1a\x45\xdf\xa3matroska", "RIFF\x00\x00\x00\x00WEBP"} {
			require.ErrorAs(t, media.Check(contentType, []byte(other)), &fault, "%s: %q", contentType, other)
		}
	}
	require.NoError(t, media.Check("audio/mpeg", []byte("ID3\x04")))
	require.ErrorAs(t, media.Check("text/plain", []byte("hello")), &fault)
}

func TestTypeOf(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{"a.mp4": "video/mp4", "a.M4A": "audio/mp4", "a": "video/mp4", "a.wav": "video/mp4"} {
		got, err := media.TypeOf(name, []byte(heads["video/mp4"]))
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	_, err := media.TypeOf("a.mp4", []byte("hello, this is text"))
	require.EqualError(t, err, "it is not an MP4, WebM, MP3, M4A, WAV, FLAC or Ogg file")
}

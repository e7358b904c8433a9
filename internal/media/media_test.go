package media_test

import (
	"cmp"
	"strings"
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
		for _, other := range []string{"", "f", "hello, this is text", "<!doctype html>", "\x89PNG\r\n\x1a\n", "\x1a\x45\xdf\xa3matroska",
			"RIFF\x00\x00\x00\x00WEBP"} {
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
	for name, want := range map[string]string{"a.mp4": "audio/mp4", "a": "audio/mp4"} {
		got, err := media.TypeOf(name, []byte(heads["audio/mp4"]))
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	_, err := media.TypeOf("a.mp4", []byte("hello, this is text"))
	require.EqualError(t, err, "it is not an MP4, WebM, MP3, M4A, WAV, FLAC or Ogg file")
}

// ftyp returns the beginning of an ISO base media file with a major brand and compatible ones.
func ftyp(major string, compatible ...string) string {
	size := 16 + 4*len(compatible)
	return "\x00\x00\x00" + string(rune(size)) + "ftyp" + major + "\x00\x00\x00\x00" + strings.Join(compatible, "") + "\x00\x00\x00\x08mdat"
}

func TestDetect(t *testing.T) {
	t.Parallel()

	tag := "ID3\x04\x00\x00\x00\x00\x00\x05" + "album"
	for head, want := range map[string]string{
		ftyp("isom", "isom", "avc1"): "MP4 video/mp4", ftyp("mp42"): "MP4 video/mp4", ftyp("iso5", "dash"): "MP4 video/mp4",
		ftyp("iso6", "cmfc"): "MP4 video/mp4", ftyp("M4V ", "mp42"): "MP4 video/mp4", ftyp("dash"): "MP4 video/mp4",
		ftyp("XAVC"): "MP4 video/mp4",
		ftyp("qt  "): "QuickTime video/mp4", "\x00\x00\x00\x08wide\x00\x00\x00\x00mdat": "QuickTime video/mp4",
		ftyp("3gp5"): "3GP video/mp4", ftyp("3g2a"): "3GP video/mp4",
		ftyp("M4A ", "isom"): "M4A audio/mp4", ftyp("M4B "): "M4A audio/mp4",
		ftyp("heic", "mif1"): "HEIC: convert it to JPEG, PNG or WebP", ftyp("heix"): "HEIC: convert it to JPEG, PNG or WebP",
		ftyp("mif1", "mif1", "heic"): "HEIC: convert it to JPEG, PNG or WebP", ftyp("msf1", "hevc"): "HEIC: convert it to JPEG, PNG or WebP",
		ftyp("mif1", "miaf"): "HEIF: convert it to JPEG, PNG or WebP",
		ftyp("avif", "mif1"): "AVIF: convert it to JPEG, PNG or WebP", ftyp("mif1", "avif", "miaf"): "AVIF: convert it to JPEG, PNG or WebP",
		ftyp("avis"): "AVIF: convert it to JPEG, PNG or WebP",
		ftyp("crx "): "a raw photograph (CR3): convert it to JPEG, PNG or WebP",
		"\x00\x00\x00\x18stypmsdh\x00\x00\x00\x00":                             "a segment of a fragmented MP4, without its beginning: convert it to MP4 or WebM",
		"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm":                 "WebM video/webm",
		"\x1a\x45\xdf\xa3\xa3\x42\x86\x81\x01\x42\x82\x88matroska\x42\x87webm": "Matroska (MKV): convert it to MP4 or WebM",
		"RIFF\x00\x00\x00\x00WAVEfmt ":                                         "WAV audio/wav", "RF64\xff\xff\xff\xffWAVEds64": "WAV audio/wav",
		"BW64\xff\xff\xff\xffWAVEds64": "WAV audio/wav",
		"RIFF\x00\x00\x00\x00AVI LIST": "AVI: convert it to MP4 or WebM", "RIFF\x00\x00\x00\x00WEBPVP8 ": "WebP image/webp",
		"FORM\x00\x00\x00\x00AIFFCOMM": "AIFF: convert it to WAV, FLAC or MP3",
		"\xff\xfb\x90\x64\x00\x00":     "MP3 audio/mpeg", "\xff\xf3\x84\x00": "MP3 audio/mpeg", "\xff\xe3\x18\xc4": "MP3 audio/mpeg",
		"\xff\xfd\x84\x00":       "MP3 audio/mpeg",
		tag + "\xff\xfb\x90\x64": "MP3 audio/mpeg", "ID3\x04\x00\x00\x00\x7f\x7f\x7f" + "album": "MP3 audio/mpeg", tag +
			"\x00\x00\xff\xfb\x90\x64": "MP3 audio/mpeg",
		tag + "\xff\xf1\x50\x80": "AAC without a container: convert it to WAV, FLAC or MP3", tag +
			"fLaC\x00": "FLAC with a tag of ID3: convert it to WAV, FLAC or MP3",
		"\xff\xf1\x50\x80\x00": "AAC without a container: convert it to WAV, FLAC or MP3", "\xff\xfeh\x00i\x00": "", "\xff\xff\xff\xff": "",
		"fLaC\x00": "FLAC audio/flac", "OggS\x00": "Ogg audio/ogg", "\xff\xd8\xff\xe1": "JPEG image/jpeg", "\x89PNG\r\n\x1a\n": "PNG image/png",
		"GIF89a\x01": "GIF: convert it to JPEG, PNG or WebP", "II*\x00\x08": "TIFF or a raw photograph: convert it to JPEG, PNG or WebP",
		"MM\x00*\x00": "TIFF or a raw photograph: convert it to JPEG, PNG or WebP",
		"BM\x46\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00": "BMP: convert it to JPEG, PNG or WebP",
		"BMW drives a car, it says here":                                     "",
		"\xff\x0a\xfa\x1f":                                                   "JPEG XL: convert it to JPEG, PNG or WebP",
		"\x00\x00\x00\x0cJXL \r\n\x87\n":                                     "JPEG XL: convert it to JPEG, PNG or WebP",
		"\x00\x00\x00\x0cjP  \r\n\x87\n":                                     "JPEG 2000: convert it to JPEG, PNG or WebP",
		"<svg xmlns=":                                                        "SVG: convert it to JPEG, PNG or WebP",
		"\xef\xbb\xbf <?xml version=\"1.0\"?>\n<!-- a -->\n<SVG>":            "SVG: convert it to JPEG, PNG or WebP",
		"<!DOCTYPE html><svg>":                                               "an HTML page", "%PDF-1.7": "PDF: convert it to JPEG, PNG or WebP",
		"hello": "", "": "",
		"\x00\x00\x00\x20ftyp": "",
		"G" + strings.Repeat("x", 187) + "G" + strings.Repeat("x", 400): "an MPEG transport stream: convert it to MP4 or WebM",
	} {
		kind := media.Detect([]byte(head))

		require.Equal(t, want, cmp.Or(kind.Advice(), strings.TrimSpace(kind.Name+" "+kind.Type)), "%q", head)
	}
	require.Equal(t, "HEIC: convert it to JPEG, PNG or WebP", media.AdviceOn("image/heic"))
	require.Empty(t, media.AdviceOn("image/png"))
}

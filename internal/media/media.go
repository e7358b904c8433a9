// Package media recognizes video and audio files from untrusted callers by their first bytes.
// It decodes nothing: a runtime does that, on the worker.
package media

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	// MaxBytes is the maximum size of a file.
	MaxBytes = 500 << 20
	// HeadBytes is how many of a file's first bytes [Check] needs; fewer if the file is smaller.
	HeadBytes = 4096
)

// ContentTypes are the supported types.
var ContentTypes = []string{
	"video/mp4", "video/webm",
	"audio/mpeg", "audio/mp4", "audio/wav", "audio/x-wav", "audio/flac", "audio/ogg",
}

// formats are the beginnings and the usual file extensions of the supported types.
var formats = map[string]struct {
	begins     func(head []byte) bool
	extensions []string
}{
	"video/mp4":   {isMP4, []string{".mp4", ".m4v"}},
	"video/webm":  {isWebM, []string{".webm"}},
	"audio/mpeg":  {isMP3, []string{".mp3"}},
	"audio/mp4":   {isMP4, []string{".m4a"}},
	"audio/wav":   {isWAV, []string{".wav"}},
	"audio/x-wav": {isWAV, nil},
	"audio/flac":  {prefixed("fLaC"), []string{".flac"}},
	"audio/ogg":   {prefixed("OggS"), []string{".ogg", ".oga", ".opus"}},
}

// Fault says what is wrong with a file. It is the end of a sentence, such as "it is …".
type Fault string

func (f Fault) Error() string { return string(f) }

// Check returns a Fault unless a file that begins with head can be of this type.
func Check(contentType string, head []byte) error {
	format, ok := formats[contentType]
	if !ok {
		return Fault(fmt.Sprintf("it is none of %s", strings.Join(ContentTypes, ", ")))
	}
	if !format.begins(head) {
		return Fault(fmt.Sprintf("it does not begin like a file of the type %s", contentType))
	}
	return nil
}

// TypeOf returns the type of a file of this name and beginning, or a Fault. MP4 files of video
// and of audio begin alike: only the name tells them apart.
func TypeOf(name string, head []byte) (string, error) {
	extension := strings.ToLower(path.Ext(name))
	for _, contentType := range ContentTypes {
		if slices.Contains(formats[contentType].extensions, extension) && formats[contentType].begins(head) {
			return contentType, nil
		}
	}
	for _, contentType := range ContentTypes {
		if formats[contentType].begins(head) {
			return contentType, nil
		}
	}
	return "", Fault("it is not an MP4, WebM, MP3, M4A, WAV, FLAC or Ogg file")
}

func prefixed(magic string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }
}

func isMP4(head []byte) bool { return len(head) >= 12 && string(head[4:8]) == "ftyp" }

// isWebM looks for the name of the format, which tells WebM from other Matroska files.
func isWebM(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\x1a\x45\xdf\xa3")) && bytes.Contains(head[:min(len(head), 128)], []byte("webm"))
}

// isMP3 accepts a tag of ID3, or the header of a frame: eleven set bits, and a layer.
func isMP3(head []byte) bool {
	return bytes.HasPrefix(head, []byte("ID3")) || len(head) >= 4 && head[0] == 0xff && head[1]&0xe0 == 0xe0 && head[1]&0x06 != 0
}

func isWAV(head []byte) bool {
	return len(head) >= 12 && (string(head[:4]) == "RIFF" || string(head[:4]) == "RF64") && string(head[8:12]) == "WAVE"
}

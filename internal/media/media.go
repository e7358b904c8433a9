// Package media recognizes video and audio files from untrusted callers by their first bytes.
// It decodes nothing: a runtime does that, on the worker.
package media

import (
	"cmp"
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

// soundExtensions are the usual endings of the names of MP4 files that have only sound. Some begin like
// videos: then only the name tells them apart.
var soundExtensions = []string{".m4a", ".m4b"}

// Fault says what is wrong with a file. It is the end of a sentence, such as "it is …".
type Fault string

func (f Fault) Error() string { return string(f) }

// Check returns a Fault unless a file that begins with head can be of this type.
func Check(contentType string, head []byte) error {
	if !slices.Contains(ContentTypes, contentType) {
		return Fault(fmt.Sprintf("it is none of %s", strings.Join(ContentTypes, ", ")))
	}
	kind := Detect(head)
	advice := kind.Advice()
	switch {
	case kind.Type == contentType,
		contentType == "audio/x-wav" && kind.Type == "audio/wav",
		contentType == "audio/mp4" && kind.Type == "video/mp4": // see soundExtensions
		return nil
	case advice != "":
		return Fault("it is " + advice)
	case kind.Name != "":
		return Fault(fmt.Sprintf("it does not begin like a file of the type %s: it is %s", contentType, kind.Name))
	}
	return Fault(fmt.Sprintf("it does not begin like a file of the type %s", contentType))
}

// TypeOf returns the type of a video or sound of this name and beginning, or a Fault.
func TypeOf(name string, head []byte) (string, error) {
	kind := Detect(head)
	switch {
	case kind.Type == "video/mp4" && slices.Contains(soundExtensions, strings.ToLower(path.Ext(name))):
		return "audio/mp4", nil
	case slices.Contains(ContentTypes, kind.Type):
		return kind.Type, nil
	case kind.Name != "":
		return "", Fault("it is " + cmp.Or(kind.Advice(), kind.Name))
	}
	return "", Fault("it is not an MP4, WebM, MP3, M4A, WAV, FLAC or Ogg file")
}

package quality

import (
	"encoding/binary"
	"io"
	"os"
)

// maxBoxes is how many boxes of a file are followed: fragmented files have many.
const maxBoxes = 100_000

// endsEarly reports whether the file at path is an MP4 file whose last box is longer
// than the file. ffmpeg does not complain if only the end of the index is missing.
func endsEarly(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false
	}
	var head [16]byte
	at := int64(0)
	for n := 0; at < info.Size() && n < maxBoxes; n++ {
		read, err := file.ReadAt(head[:], at)
		if read < 8 || err != nil && err != io.EOF {
			return n > 0
		}
		if n == 0 && string(head[4:8]) != "ftyp" {
			return false
		}
		size := int64(binary.BigEndian.Uint32(head[:]))
		switch {
		case size == 0: // until the end of the file
			return false
		case size == 1 && read == 16:
			size = int64(binary.BigEndian.Uint64(head[8:]))
		}
		if size < 8 || size > info.Size()-at {
			return true
		}
		at += size
	}
	return false
}

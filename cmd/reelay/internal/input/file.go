package input

import (
	"fmt"
	"io"
	"os"

	"github.com/reelay/reelay/internal/text"
)

// maxFile limits the size of a file that an argument names. The API accepts less.
const maxFile = 64 << 10

// ReadText reads a file, or standard input for "-". It returns an error if the text is too
// long or is not UTF-8.
func ReadText(path string, stdin io.Reader) (string, error) {
	data, err := ReadUpTo(path, stdin, maxFile)
	return string(data), err
}

// ReadUpTo reads a file that people write, or standard input for "-", of up to limit bytes, without its byte
// order mark. It returns an error if the file is longer or is not UTF-8.
func ReadUpTo(path string, stdin io.Reader, limit int64) ([]byte, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	if data, err = text.OfFile(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

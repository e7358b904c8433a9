package text

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// NotUTF8 says that a file is in another encoding.
type NotUTF8 struct {
	// Line is the first line that cannot be read, or 0 if none can.
	Line int
	what string
}

func (e *NotUTF8) Error() string { return e.what + ": save the file as UTF-8" }

// mark is what editors of Windows write at the beginning of a file in UTF-8.
var mark = []byte("\xef\xbb\xbf")

// OfFile returns the text of a file that people write, without its byte order mark. The error is a
// *NotUTF8 if it is in another encoding.
func OfFile(data []byte) ([]byte, error) {
	if InUTF16(data) {
		return nil, &NotUTF8{what: "it is in UTF-16"}
	}
	if !utf8.Valid(data) {
		line := 1
		for rest := data; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				break
			}
			if r == '\n' {
				line++
			}
			rest = rest[size:]
		}
		return nil, &NotUTF8{line, fmt.Sprintf("line %d is not valid UTF-8", line)}
	}
	return bytes.TrimPrefix(data, mark), nil
}

// InUTF16 reports whether a file begins as UTF-16 does: with its byte order mark, or with an ASCII
// character and a zero byte.
func InUTF16(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) ||
		len(head) > 1 && (head[0] == 0) != (head[1] == 0)
}

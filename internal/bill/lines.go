package bill

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/reelay/reelay/internal/text"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	// maxRecord bounds a record in bytes, and maxRecordLines its lines: a field in quotes can have several.
	maxRecord      = 256 << 10
	maxRecordLines = 100
)

// records reads the records of a CSV file, each with the number of its first line.
type records struct {
	in        *bufio.Reader
	separator byte
	// line is the number of the line that was read last, and begin that of the first line of the record.
	line, begin int
	record      []byte
	fields      []string
}

// newRecords finds the encoding (UTF-8 or UTF-16) and the separator (, ; or a tab) from the begin of the file.
func newRecords(from io.Reader) (*records, error) {
	in := bufio.NewReaderSize(from, 64<<10)
	head, err := in.Peek(4)
	if len(head) == 0 {
		if err == io.EOF {
			return nil, errors.New("the file is empty")
		}
		return nil, err
	}
	if text.InUTF16(head) {
		order := unicode.LittleEndian
		if head[0] == 0 {
			order = unicode.BigEndian
		}
		in = bufio.NewReaderSize(transform.NewReader(in, unicode.UTF16(order, unicode.UseBOM).NewDecoder()), 64<<10)
	} else if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	r := &records{in: in}
	first, _ := in.Peek(16 << 10)
	if i := bytes.IndexByte(first, '\n'); i >= 0 {
		first = first[:i]
	}
	r.separator = ','
	for _, other := range []byte{';', '\t'} {
		if bytes.Count(first, []byte{other}) > bytes.Count(first, []byte{r.separator}) {
			r.separator = other
		}
	}
	return r, nil
}

// next returns the fields of the next record that is not empty, or io.EOF. The fields are valid until the next call. A
// *Problem is a record that cannot be read: the next one may be. Any other error is the end.
func (r *records) next() ([]string, error) {
	for {
		r.record, r.begin = r.record[:0], r.line+1
		for {
			err := r.readLine()
			if err == io.EOF && len(bytes.TrimSpace(r.record)) == 0 {
				return nil, io.EOF
			}
			if err != nil && err != io.EOF {
				return nil, err
			}
			if bytes.Count(r.record, []byte{'"'})%2 == 0 {
				break
			}
			if err == io.EOF || r.line-r.begin+1 >= maxRecordLines {
				return nil, &Problem{r.begin, fmt.Sprintf("a quote is not closed: the lines from it to %d are left out", r.line)}
			}
		}
		if !utf8.Valid(r.record) {
			return nil, fmt.Errorf("line %d is not valid UTF-8: save the file as UTF-8 (spreadsheets call it CSV UTF-8)", r.begin)
		}
		r.record = bytes.TrimRight(r.record, "\r\n")
		if len(bytes.TrimSpace(r.record)) > 0 {
			return r.split()
		}
	}
}

// readLine appends a line to the record.
func (r *records) readLine() error {
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.record)+len(part) > maxRecord {
			for err == bufio.ErrBufferFull {
				_, err = r.in.ReadSlice('\n')
			}
			r.line++
			return &Problem{r.begin, fmt.Sprintf("it is longer than %d KiB", maxRecord>>10)}
		}
		r.record = append(r.record, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if len(part) > 0 {
			r.line++
		}
		return err
	}
}

// split divides the record into its fields.
func (r *records) split() ([]string, error) {
	r.fields = r.fields[:0]
	rest := r.record
	for {
		var field []byte
		rest = bytes.TrimLeft(rest, " ")
		if len(rest) > 0 && rest[0] == '"' {
			rest = rest[1:]
			for {
				i := bytes.IndexByte(rest, '"')
				if i < 0 {
					return nil, &Problem{r.begin, "a quote is not closed"}
				}
				field, rest = append(field, rest[:i]...), rest[i+1:]
				if len(rest) == 0 || rest[0] != '"' {
					break
				}
				field, rest = append(field, '"'), rest[1:]
			}
			if after := bytes.TrimLeft(rest, " "); len(after) > 0 && after[0] != r.separator {
				return nil, &Problem{r.begin, "text follows a field in quotes"}
			}
		}
		i := bytes.IndexByte(rest, r.separator)
		if field == nil {
			field = rest
			if i >= 0 {
				field = rest[:i]
			}
		}
		r.fields = append(r.fields, string(bytes.TrimSpace(field)))
		if i < 0 {
			return r.fields, nil
		}
		rest = rest[i+1:]
	}
}

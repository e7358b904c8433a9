package output

import (
	"fmt"
	"io"
)

// Printer writes an answer for people to read.
type Printer func(io.Writer) error

// Line prints one formatted line.
func Line(format string, args ...any) Printer {
	return func(out io.Writer) error {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	}
}

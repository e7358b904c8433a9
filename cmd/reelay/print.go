package main

import (
	"fmt"
	"io"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
)

// printJSON writes one JSON document.
func printJSON(out io.Writer, v any) error { return output.JSON(out, v) }

// printTable writes rows as aligned columns.
func printTable(out io.Writer, header []string, rows [][]string) error {
	return output.WriteRows(out, header, rows)
}

// ago returns the approximate time since t.
func ago(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return output.Ago(*t)
}

// orDash returns the value as text, or a dash if there is none.
func orDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
)

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

// checkOutput returns an error, before anything is submitted, if the file could not be
// written.
func checkOutput(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder: name a file in it", path)
	case err == nil && !force:
		return fmt.Errorf("%s exists: choose another file, or replace it with --force", path)
	}
	return checkFolder(path)
}

// checkFolder returns an error if the folder of a file is missing.
func checkFolder(path string) error {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return fmt.Errorf("the folder %s for the file %s does not exist: create it first", folder, filepath.Base(path))
	}
	return nil
}

// printer writes an answer for people to read.
type printer func(io.Writer) error

// line prints one formatted line.
func line(format string, args ...any) printer {
	return func(out io.Writer) error {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	}
}

// formatSize formats a number of bytes with a unit.
func formatSize(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

func decimal(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// complete is the answer of a call that returns a whole list.
func complete[T any](items []T, err error) (output.List[T], error) { return output.All(items), err }

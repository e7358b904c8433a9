package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // in the archive
	file string
	mode int64
}

// writeArchives writes one archive per target.
func (r *release) writeArchives(context.Context) error {
	for _, t := range r.targets {
		folder := fmt.Sprintf("reelay_%s_%s", r.version, t)
		entries := []entry{
			{"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644},
			{"CHANGELOG.md", filepath.Join(r.root, "CHANGELOG.md"), 0o644},
			{licencesFile, filepath.Join(r.out, licencesFile), 0o644},
		}
		for _, p := range programs {
			entries = append(entries, entry{p.name, filepath.Join(r.stage, t.String(), p.name), 0o755})
		}
		for folder, pattern := range map[string]string{"man/man1": "man/*/*.1", "completions": "completions/*"} {
			files, err := filepath.Glob(filepath.Join(r.stage, "pages", pattern))
			if err != nil {
				return err
			}
			for _, file := range files {
				entries = append(entries, entry{folder + "/" + filepath.Base(file), file, 0o644})
			}
		}
		if err := writeArchive(filepath.Join(r.out, folder+".tar.gz"), folder, entries, r.time); err != nil {
			return fmt.Errorf("write the archive for %s/%s: %w", t.os, t.arch, err)
		}
	}
	return nil
}

// writeArchive writes files into folder of a new archive. Its bytes depend only on the names,
// modes and contents, and on the time that all files get.
func writeArchive(path, folder string, entries []entry, at time.Time) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range entries {
		if err := e.write(archive, folder, at); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

func (e entry) write(archive *tar.Writer, folder string, at time.Time) error {
	in, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: folder + "/" + e.name, Mode: e.mode, Size: info.Size(), ModTime: at, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, in)
	return err
}

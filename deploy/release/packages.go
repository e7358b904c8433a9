package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// packages is the folder of the descriptions of the Debian packages, and of what only they have.
const packages = "deploy/packages"

// writePackages writes the Debian packages of all programs for the targets with Linux.
func (r *release) writePackages(ctx context.Context) error {
	nfpm, err := r.tool(ctx, "nfpm")
	if err != nil {
		return err
	}
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		say("packing for Debian on %s", t.arch)
		folder := filepath.Join(r.stage, t.String())
		if err := r.fill(folder); err != nil {
			return err
		}
		settings := []string{"VERSION=" + r.version, "ARCH=" + t.arch, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}
		for _, p := range programs {
			if _, err := output(ctx, folder, settings, nfpm, "package", "--packager", "deb", "--config", "packages/"+p.name+".yaml",
				"--target", r.out); err != nil {
				return fmt.Errorf("pack %s for %s: %w", p.name, t.arch, err)
			}
		}
	}
	return nil
}

// fill puts beside the programs of a target what else the packages contain. Policy wants long
// texts compressed.
func (r *release) fill(folder string) error {
	for name, from := range map[string]string{"packages": packages, "prometheus": "deploy/prometheus", "grafana": "deploy/grafana"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join(r.root, from))); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(folder, "completions"), os.DirFS(filepath.Join(r.stage, "pages/completions"))); err != nil {
		return err
	}
	compressed := map[string]string{filepath.Join(r.out, licencesFile): licencesFile + ".gz"}
	for _, p := range programs {
		changelog := filepath.Join(folder, p.name+".changelog")
		if err := os.WriteFile(changelog, []byte(r.debianChangelog(p.name)), 0o644); err != nil {
			return err
		}
		compressed[changelog] = p.name + ".changelog.gz"
	}
	pages, err := filepath.Glob(filepath.Join(r.stage, "pages/man/*/*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		program := filepath.Base(filepath.Dir(page))
		compressed[page] = filepath.Join("man", program, filepath.Base(page)+".gz")
	}
	for from, to := range compressed {
		if err := compress(from, filepath.Join(folder, to)); err != nil {
			return err
		}
	}
	return setTimes(folder, r.time)
}

// debianChangelog returns the changelog that every package must have, in its own format.
func (r *release) debianChangelog(name string) string {
	return fmt.Sprintf("%s (%s) stable; urgency=medium\n\n  * Version %s: see CHANGELOG.md of Reelay.\n\n"+
		" -- The Reelay authors <reelay@users.noreply.github.com>  %s\n",
		name, strings.ReplaceAll(r.version, "-", "~"), r.version, r.time.Format(time.RFC1123Z))
}

// compress writes a gzip file without name and time.
func compress(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var small bytes.Buffer
	zip, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := zip.Write(text); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, small.Bytes(), 0o644)
}

// setTimes gives all files and folders the same time, which nfpm copies.
func setTimes(folder string, at time.Time) error {
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}

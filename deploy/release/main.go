// Command release builds a release of Reelay: archives, Debian packages, bills of materials,
// licences, notes and checksums. Two builds of the same commit give the same files.
// docs/developers/releases.md describes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/reelay/reelay/deploy/release/licences"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := flag.String("out", "dist", "folder for the files of the release; those of an older release there are removed")
	key := flag.String("signing-key", "", "SSH private key that signs SHA256SUMS (default: no signature)")
	only := flag.String("only", "", "targets such as linux/amd64,darwin/arm64 (default: all)")
	flag.Parse()
	if err := run(ctx, ".", *out, *key, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

// target is a platform that programs are built for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "_" + t.arch }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// chosen returns the targets in a list such as linux/amd64,darwin/arm64.
func chosen(list string) ([]target, error) {
	if list == "" {
		return targets, nil
	}
	var some []target
	for name := range strings.SplitSeq(list, ",") {
		os, arch, _ := strings.Cut(name, "/")
		known := false
		for _, t := range targets {
			known = known || t == target{os, arch}
		}
		if !known {
			return nil, fmt.Errorf("-only names %q: the targets are linux and darwin with amd64 and arm64, such as linux/amd64", name)
		}
		some = append(some, target{os, arch})
	}
	return some, nil
}

// release is what one run builds.
type release struct {
	source
	out     string // folder of the files, until all are finished
	stage   string // folder of what goes into them
	targets []target
	parts   []licences.Part // that are not ours; set by writeLicences
}

// run builds a release of the checkout in root.
func run(ctx context.Context, root, out, key, only string) error {
	some, err := chosen(only)
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	from, err := readSource(ctx, root)
	if err != nil {
		return err
	}
	if err := checkFree(out); err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "reelay-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	r := &release{source: from, out: filepath.Join(stage, "dist"), stage: stage, targets: some}
	if err := r.build(ctx); err != nil {
		return err
	}
	if err := writeSums(r.out); err != nil {
		return err
	}
	if key != "" {
		if err := sign(ctx, key, filepath.Join(r.out, sumsFile)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.CopyFS(out, os.DirFS(r.out)); err != nil {
		return err
	}
	say("Reelay %s is in %s", r.version, out)
	return nil
}

// checkFree makes sure that only an older release is removed.
func checkFree(out string) error {
	files, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, sumsFile)); err != nil {
		return fmt.Errorf("-out is %s, which has files but is no release (it has no %s): name an empty folder", out, sumsFile)
	}
	return nil
}

// build builds everything but the checksums.
func (r *release) build(ctx context.Context) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		r.checkAssets, r.writeNotes, r.buildPrograms, r.writePages, r.writeLicences, r.writeBills, r.writeArchives, r.writePackages,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...) }

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is the checkout that a release is built from.
type source struct {
	root string
	// version is that of CHANGELOG.md's newest section if the commit has its tag and nothing
	// is modified. Otherwise it has the suffix -dev.
	version  string
	released bool // version has no suffix
	notes    string
	commit   string
	modified bool
	time     time.Time // of the commit; that of all files of the release
}

// heading is the heading of a version in CHANGELOG.md.
var heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\] - (.+)\n`)

// readNotes returns the newest version in a changelog, its date or "Unreleased", and its text.
func readNotes(changelog string) (version, date, notes string, err error) {
	found := heading.FindAllStringSubmatchIndex(changelog, 2)
	if len(found) == 0 {
		return "", "", "", errors.New("CHANGELOG.md has no heading such as `## [0.1.0] - 2026-11-30`")
	}
	first, end := found[0], len(changelog)
	if len(found) > 1 {
		end = found[1][0]
	}
	notes = strings.TrimSpace(changelog[first[1]:end]) + "\n"
	return changelog[first[2]:first[3]], changelog[first[4]:first[5]], notes, nil
}

func readSource(ctx context.Context, root string) (source, error) {
	s := source{root: root}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return s, err
	}
	version, date, notes, err := readNotes(string(changelog))
	if err != nil {
		return s, err
	}
	s.notes = notes
	status, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return s, err
	}
	s.modified = status != ""
	head, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	s.commit = commit
	if s.time, err = commitTime(seconds); err != nil {
		return s, err
	}
	tags, err := git(ctx, root, "tag", "--points-at", "HEAD")
	if err != nil {
		return s, err
	}
	return s, s.setVersion(version, date, strings.Fields(tags))
}

// commitTime returns SOURCE_DATE_EPOCH if it is set, else the time of the commit.
func commitTime(seconds string) (time.Time, error) {
	if set := os.Getenv("SOURCE_DATE_EPOCH"); set != "" {
		seconds = set
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the commit or SOURCE_DATE_EPOCH is %q: it must be seconds since 1970", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// setVersion decides whether this is a release, by the tags of the commit.
func (s *source) setVersion(version, date string, tags []string) error {
	for _, tag := range tags {
		number, ok := strings.CutPrefix(tag, "v")
		if !ok || strings.Contains(number, "/") {
			continue
		}
		switch {
		case number != version:
			return fmt.Errorf("the commit has the tag %s, but the newest version in CHANGELOG.md is %s: correct one of them", tag, version)
		case date == "Unreleased":
			return fmt.Errorf("the commit has the tag %s, but CHANGELOG.md says that %s is unreleased: write the date there, commit, "+
				"and move the tag", tag, version)
		case s.modified:
			return fmt.Errorf("the commit has the tag %s, but files are modified or not committed: commit or remove them (git status)", tag)
		}
		s.version, s.released = version, true
		return nil
	}
	s.version = version + "-dev"
	say("the commit has no tag v%s: this is a build of %s, not a release", version, s.version)
	return nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := output(ctx, dir, nil, "git", args...)
	return strings.TrimSpace(string(out)), err
}

// output runs a program in dir, with settings added to the environment. Its error contains
// what the program printed to standard error.
func output(ctx context.Context, dir string, settings []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), settings...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// writeNotes writes the text of the version in CHANGELOG.md.
func (r *release) writeNotes(context.Context) error {
	return os.WriteFile(filepath.Join(r.out, "RELEASE_NOTES.md"), []byte("# Reelay "+r.version+"\n\n"+r.notes), 0o644)
}

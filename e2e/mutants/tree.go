package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// tree is a copy of this working tree to which mutants are applied.
type tree struct{ from, dir string }

// copyTree copies every file that git does not ignore.
func copyTree(ctx context.Context) (*tree, error) {
	from, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	listed, err := exec.CommandContext(ctx, "git", "ls-files", "-co", "--exclude-standard", "-z").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of this tree: %w", err)
	}
	dir, err := os.MkdirTemp("", "reelay-mutants-")
	if err != nil {
		return nil, err
	}
	t := &tree{from: from, dir: dir}
	for _, name := range strings.Split(strings.Trim(string(listed), "\x00"), "\x00") {
		if err := t.restore(name); err != nil && !os.IsNotExist(err) { // deleted but not committed yet
			t.remove()
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) remove() { os.RemoveAll(t.dir) }

// restore copies a file from the original tree.
func (t *tree) restore(name string) error {
	data, err := os.ReadFile(filepath.Join(t.from, name))
	if err != nil {
		return err
	}
	to := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// sound returns an error unless the tests of the mutants pass without a mutant.
func (t *tree) sound(ctx context.Context, mutants []mutant) error {
	tests := map[string][]string{}
	for _, m := range mutants {
		tests[m.pkg] = append(tests[m.pkg], m.tests)
	}
	for pkg, patterns := range tests {
		if output, failed := t.test(ctx, pkg, strings.Join(patterns, "|")); failed != nil {
			return fmt.Errorf("the tests of %s fail without a mutant:\n%s", pkg, output)
		}
	}
	return nil
}

// try returns the test that caught the mutant, or "" if none did. It returns an error if the
// mutant does not apply or does not build.
func (t *tree) try(ctx context.Context, m mutant) (string, error) {
	// One line of context is enough, since the surrounding code changes often.
	if out, err := t.command(ctx, "git", "apply", "-C1", m.patch); err != nil {
		return "", fmt.Errorf("the patch no longer applies: %s", firstLine(out))
	}
	defer t.restoreAll(context.WithoutCancel(ctx), m)
	if out, err := t.command(ctx, "go", "vet", m.pkg); err != nil {
		return "", fmt.Errorf("it does not build: %s", out)
	}
	output, failed := t.test(ctx, m.pkg, m.tests)
	if failed == nil {
		return "", nil
	}
	if names := failure.FindAllStringSubmatch(output, -1); len(names) > 0 {
		return names[len(names)-1][1], nil
	}
	return "", fmt.Errorf("the tests ended without a verdict: %s", output)
}

// failure matches a failed test. The last match is the innermost subtest.
var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

func (t *tree) test(ctx context.Context, pkg, tests string) (string, error) {
	return t.command(ctx, "go", "test", "-failfast", "-timeout", "8m", pkg, "-run", "^("+tests+")$")
}

// restoreAll reverts the mutant.
func (t *tree) restoreAll(ctx context.Context, m mutant) {
	changed, err := t.command(ctx, "git", "apply", "--numstat", m.patch)
	if err != nil {
		panic("git read this patch a moment ago: " + changed)
	}
	for line := range strings.Lines(changed) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			_, name, _ = strings.Cut(name, "\t")
			if err := t.restore(name); err != nil {
				panic(err)
			}
		}
	}
}

func (t *tree) command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = t.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

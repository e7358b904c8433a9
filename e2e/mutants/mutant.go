package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one patch. Its first lines say what it breaks and which tests must fail:
//
//	What: the heartbeat does not ask for the token
//	Test: ./models TestUpdate
type mutant struct {
	name  string
	what  string
	pkg   string // the package whose tests must fail
	tests string // a pattern of their names
	patch string // the file, an absolute path
}

// readMutants reads the patches with these names in a folder, or all if there are no names.
func readMutants(dir string, names []string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := readMutant(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m.name = name
		if m.patch, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 || len(names) > len(all) {
		return nil, fmt.Errorf("%s has not all of the mutants %s: --list shows those that there are", dir, strings.Join(names, ", "))
	}
	return all, nil
}

func readMutant(text string) (m mutant, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if what, ok := strings.CutPrefix(line, "What: "); ok {
			m.what = what
		}
		if tests, ok := strings.CutPrefix(line, "Test: "); ok {
			m.pkg, m.tests, _ = strings.Cut(tests, " ")
		}
	}
	if m.what == "" || m.pkg == "" || m.tests == "" {
		return m, fmt.Errorf("it needs two lines, `What: …` and `Test: ./package TestName|TestName`")
	}
	return m, nil
}

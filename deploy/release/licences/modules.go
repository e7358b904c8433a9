package licences

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Build is one build of Go programs.
type Build struct {
	OS, Arch string
	Packages []string // of the main programs, relative to the module
}

// listed is a package as `go list` prints it.
type listed struct {
	Dir        string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// Modules returns the modules that are linked into any of the builds of the module in root,
// and Go's own library, whose code is in every program.
func Modules(ctx context.Context, root string, builds ...Build) ([]Part, error) {
	packages := map[string][]listed{} // by module folder
	parts := map[string]Part{}
	for _, b := range builds {
		all, err := linked(ctx, root, b)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			if p.Standard || p.Module == nil || p.Module.Main {
				continue
			}
			m := p.Module
			parts[m.Dir] = Part{Name: m.Path, Version: m.Version}
			packages[m.Dir] = append(packages[m.Dir], p)
		}
	}
	var all []Part
	for dir, part := range parts {
		if err := part.read(dir, packages[dir]); err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	own, err := standard(ctx, root)
	if err != nil {
		return nil, err
	}
	return sorted(append(all, own)), nil
}

func linked(ctx context.Context, root string, b Build) ([]listed, error) {
	args := append([]string{"list", "-deps", "-json=Dir,Standard,EmbedFiles,Module"}, b.Packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+b.OS, "GOARCH="+b.Arch)
	out, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("list the packages of %v for %s/%s: %w", b.Packages, b.OS, b.Arch, err)
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// Go is the name of the part that is Go's own library.
const Go = "Go standard library"

// standard returns Go's library.
func standard(ctx context.Context, root string) (Part, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION")
	cmd.Dir = root
	out, err := output(cmd)
	if err != nil {
		return Part{}, fmt.Errorf("find Go: %w", err)
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	part := Part{Name: Go, Version: version}
	return part, part.read(goroot, nil)
}

// output runs a command. Its error contains what the command printed to standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|unlicense|notice|patents)([-._].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents)|\.js\.license\.txt$`)
	codeFile    = regexp.MustCompile(`(?i)\.(go|js|ts|json|ya?ml)$`)
)

func isNotice(file string) bool { return noticeFile.MatchString(filepath.Base(file)) }

// read adds the licence files of the part's folder, and of the folders between it and the
// linked packages: some modules contain code of others. It also adds the notices of scripts
// that a package embeds.
func (p *Part) read(root string, packages []listed) error {
	folders := map[string]bool{root: true}
	for _, pkg := range packages {
		for _, file := range pkg.EmbedFiles {
			if noticeFile.MatchString(file) {
				if err := p.addFile(root, filepath.Join(pkg.Dir, file)); err != nil {
					return err
				}
			}
		}
		for dir := pkg.Dir; dir != root && strings.HasPrefix(dir, root); dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return fmt.Errorf("read the licences of %s: %w", p.Name, err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) || codeFile.MatchString(e.Name()) {
				continue
			}
			if err := p.addFile(root, filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Part) addFile(root, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read a licence of %s: %w", p.Name, err)
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	p.add(name, string(content))
	return nil
}

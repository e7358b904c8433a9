package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// program is one of the programs of a release.
type program struct {
	name string
	tags string
}

// programs are all of them. The agent's tag keeps it small.
var programs = []program{{name: "reelay"}, {name: "reelay-agent", tags: "grpcnotrace"}}

// assets are the files of the console that `go tool task assets` makes.
var assets = []string{"htmx.js", "graphiql.js", "graphiql.css", "dagre.js", "uplot.js", "uplot.css"}

// checkAssets makes sure that the console is complete: without npm, the task assets only warns.
func (r *release) checkAssets(context.Context) error {
	for _, name := range assets {
		file := filepath.Join(r.root, "web/console/static/vendor", name)
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			return fmt.Errorf("the console lacks %s: run `go tool task assets` where the npm registry can be reached", file)
		}
	}
	return nil
}

// buildPrograms builds all programs for all targets, into a folder per target.
func (r *release) buildPrograms(ctx context.Context) error {
	for _, t := range r.targets {
		say("building for %s/%s", t.os, t.arch)
		for _, p := range programs {
			if err := r.compile(ctx, t, p, filepath.Join(r.stage, t.String(), p.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compile builds a program. Nothing of the environment that changes the result is used, so
// that all builds of a commit by one release of Go have the same bytes.
func (r *release) compile(ctx context.Context, t target, p program, into string) error {
	const at = "github.com/reelay/reelay/internal/version."
	flags := []string{"-s", "-w", "-X", at + "commit=" + r.commit}
	if r.modified {
		flags = append(flags, "-X", at+"modified=true")
	}
	if r.released {
		flags = append(flags, "-X", at+"released=true")
	}
	settings := []string{
		"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off",
	}
	_, err := output(ctx, r.root, settings, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", p.tags,
		"-ldflags", strings.Join(flags, " "), "-o", into, "./cmd/"+p.name)
	if err != nil {
		return fmt.Errorf("build %s for %s/%s: %w", p.name, t.os, t.arch, err)
	}
	return nil
}

// shells are those that programs write completions for, with the names of the files.
var shells = []struct{ name, file string }{{"bash", "%s.bash"}, {"zsh", "_%s"}, {"fish", "%s.fish"}}

// writePages lets the programs write their manual pages and completions. For that they are
// built for this machine, with the tag man.
func (r *release) writePages(ctx context.Context) error {
	say("writing manual pages and completions")
	here := target{runtime.GOOS, runtime.GOARCH}
	completions := filepath.Join(r.stage, "pages/completions")
	for _, p := range programs {
		man := filepath.Join(r.stage, "pages/man", p.name)
		for _, dir := range []string{man, completions} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		writer := filepath.Join(r.stage, "writers", p.name)
		if err := r.compile(ctx, here, program{p.name, "man," + p.tags}, writer); err != nil {
			return err
		}
		settings := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()), "NO_COLOR=1"}
		if _, err := output(ctx, r.stage, settings, writer, "man", man); err != nil {
			return err
		}
		for _, shell := range shells {
			script, err := output(ctx, r.stage, settings, writer, "completion", shell.name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(completions, fmt.Sprintf(shell.file, p.name)), script, 0o644); err != nil {
				return err
			}
		}
	}
	// `reelay agent` is the program reelay-agent, which has the page of this name.
	return os.Remove(filepath.Join(r.stage, "pages/man/reelay/reelay-agent.1"))
}

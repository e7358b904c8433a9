// Package version identifies the build of a program.
package version

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Number is the version of this source, or the next one. CHANGELOG.md has a section for it.
const Number = "0.1.0"

// commit and modified are set by the linker where the go command does not record the checkout: in a linked
// worktree, and with GOFLAGS=-buildvcs=false. modified is "true" or empty.
var commit, modified string

// released is set to "true" by the linker in the binaries of a release, which deploy/release builds.
var released string

// Build identifies a program's build.
type Build struct {
	// Version is Number in the binaries of a release, and has the suffix -dev in others.
	Version string `json:"version"`
	// Commit is the git commit that was built, or "" if it is unknown, as with go run.
	Commit string `json:"commit,omitempty"`
	// Modified means that the commit had uncommitted changes.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Current returns the build of the running program.
func Current() Build {
	b := Build{Version: Number + "-dev", Commit: commit, Modified: modified == "true", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if released == "true" {
		b.Version = Number
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.stamp(info.Settings)
	}
	return b
}

// stamp copies what the go command recorded about the checkout.
func (b *Build) stamp(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
}

// String returns the version with the commit as build metadata, as in
// 0.1.0+1f2e3d4c5b6a or 0.1.0-dev+1f2e3d4c5b6a.modified.
func (b Build) String() string {
	text := b.Version
	if b.Commit != "" {
		text += "+" + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Modified {
		text += ".modified"
	}
	return text
}

// Command returns the subcommand that prints the build of its program.
func Command() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the commit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := Current()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s, %s)\n", cmd.Root().Name(), b, b.Go, b.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// Package manual writes the manual pages of a program. Only programs that are built with the
// tag man link it: deploy/release builds them to write the pages, and nobody else needs it.
package manual

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Command returns the hidden command that writes a page for each command of its program into
// a folder. The date of the pages is SOURCE_DATE_EPOCH.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			prepare(root)
			root.DisableAutoGenTag = true
			version, _, _ := strings.Cut(root.Version, "+")
			header := &doc.GenManHeader{Section: "1", Source: "Reelay " + version, Manual: "Reelay"}
			return doc.GenManTree(root, header, args[0])
		},
	}
}

// prepare makes help texts fit for pages: they are no Markdown, which the pages are made from,
// and some defaults depend on the machine.
func prepare(cmd *cobra.Command) {
	cmd.Long = strings.NewReplacer("_", `\_`, "*", `\*`, "<", `\<`).Replace(cmd.Long)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if folder := os.TempDir(); strings.HasPrefix(f.DefValue, folder) {
			f.DefValue = filepath.Join("$TMPDIR", strings.TrimPrefix(f.DefValue, folder))
		}
	})
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}

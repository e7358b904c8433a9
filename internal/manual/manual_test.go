package manual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestCommand(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795874678")
	root := &cobra.Command{Use: "kite", Short: "Fly", Version: "1.2.3+abc", Long: "Reads KITE_LONG_LINE and <file>."}
	root.Flags().String("work-dir", filepath.Join(os.TempDir(), "kite"), "folder")
	root.AddCommand(Command(), &cobra.Command{Use: "land", Short: "Come down", Run: func(*cobra.Command, []string) {}})
	folder := t.TempDir()
	root.SetArgs([]string{"man", folder})

	require.NoError(t, root.Execute())

	page, err := os.ReadFile(filepath.Join(folder, "kite.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), `.TH "KITE" "1" "Nov 2026" "Reelay 1.2.3" "Reelay"`)
	require.Contains(t, string(page), "Reads KITE_LONG_LINE and <file>.")
	require.Contains(t, string(page), `\fB--work-dir\fP="$TMPDIR/kite"`)
	require.FileExists(t, filepath.Join(folder, "kite-land.1"))
	require.NoFileExists(t, filepath.Join(folder, "kite-man.1"), "it is hidden")
}

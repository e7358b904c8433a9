package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReference keeps docs/users/cli.md current.
func TestReference(t *testing.T) {
	t.Parallel()
	var page strings.Builder

	writeReference(&page, rootCommand())

	written, err := os.ReadFile("../../docs/users/cli.md")
	require.NoError(t, err)
	require.True(t, page.String() == string(written), "docs/users/cli.md is not current: run `go tool task generate`")
}

package connect

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/stretchr/testify/require"
)

func TestRedraw(t *testing.T) {
	t.Parallel()

	t.Run("WritesOverTheOldPage", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder

		require.NoError(t, redraw(&output.Screen{Writer: &out, Width: 20, Height: 5}, "a title that is too long", "1\n2\n3\n"))

		require.Equal(t, "\x1b[Ha title that is too…\x1b[K\n1\x1b[K\n2\x1b[K\n…\x1b[K\n\x1b[J", out.String())
	})
}

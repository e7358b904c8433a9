package job

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteQuoted(t *testing.T) {
	t.Parallel()

	cells := []string{"", "a", `say "x"`, "a;b", "a,b", "two\nlines", " x "}
	var file bytes.Buffer
	w := bufio.NewWriter(&file)
	writeQuoted(w, cells)
	require.NoError(t, w.Flush())

	require.Equal(t, len(cells), strings.Count(file.String(), `","`)+1, "every cell is quoted")
	read, err := csv.NewReader(&file).Read()
	require.NoError(t, err)
	require.Equal(t, cells, read)
}

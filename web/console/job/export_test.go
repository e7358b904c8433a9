package job

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHarmless(t *testing.T) {
	t.Parallel()

	for cell, want := range map[string]string{
		"":                 "",
		"fox":              "fox",
		"a-b=c+d@e":        "a-b=c+d@e",
		"job_0192-3f":      "job_0192-3f",
		"=1+1":             "'=1+1",
		"-1":               "'-1",
		"@SUM(1)":          "'@SUM(1)",
		"＝1+1":             "'＝1+1",
		"﹦1+1":             "'﹦1+1",
		"a;﹣1":             "a;'﹣1",
		"＋1":               "'＋1",
		"－1":               "'－1",
		"＠SUM(1)":          "'＠SUM(1)",
		" \t=1":            " \t'=1",
		"\u3000=1":         "\u3000'=1",
		"\u200b\ufeff=1":   "\u200b\ufeff'=1",
		"\x00=1":           "\x00'=1",
		"a;=1+1":           "a;'=1+1",
		"a; ＝1;+2":         "a; '＝1;'+2",
		`a;"=1+1"`:         `a;"'=1+1"`,
		`";=cmd|' /C x'!A`: `";'=cmd|' /C x'!A`,
		"a\n=1\r\n@2\t-3":  "a\n'=1\r\n'@2\t'-3",
		"a,=1":             "a,=1", // the comma is the separator of the file, and the cell is quoted
	} {
		require.Equal(t, want, harmless(cell), "%q", cell)
	}
}

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

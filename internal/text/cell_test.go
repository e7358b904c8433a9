package text_test

import (
	"testing"

	"github.com/reelay/reelay/internal/text"
	"github.com/stretchr/testify/require"
)

func TestCell(t *testing.T) {
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
		require.Equal(t, want, text.Cell(cell), "%q", cell)
	}
}

func TestUSD(t *testing.T) {
	t.Parallel()

	for want, amount := range map[string]float64{
		"$0": 0, "less than $0.0001": 0.00003, "$0.0123": 0.01234, "$9.50": 9.5, "$1234.57": 1234.567, "-$0.5000": -0.5,
	} {
		require.Equal(t, want, text.USD(amount))
	}
}

package yamlfile_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	t.Parallel()

	type entry struct {
		Key string            `yaml:"key"`
		Job yamlfile.Document `yaml:"job"`
	}
	type file struct {
		Name string  `yaml:"name"`
		Jobs []entry `yaml:"jobs"`
	}
	read := func(text string) (in file, err error) {
		_, err = yamlfile.ReadUpTo(10<<20, "x.yaml", "jobs", []byte(text), &in)
		return in, err
	}

	t.Run("KeepsPartsAsJSONInTheirOrder", func(t *testing.T) {
		t.Parallel()

		in, err := read("jobs:\n- key: a\n  job:\n    z: 9007199254740993\n    a: [1.5, null, true, \"16:9\", 16:9, yes]\n    t: |\n      two\n      lines\n- key: b\n")

		require.NoError(t, err)
		require.Equal(t, `{"z": 9007199254740993, "a": [1.5, null, true, "16:9", "16:9", "yes"], "t": "two\nlines\n"}`, string(in.Jobs[0].Job))
		require.Empty(t, in.Jobs[1].Job)
	})

	t.Run("SuggestsKeys", func(t *testing.T) {
		t.Parallel()
		for text, says := range map[string]string{
			"nane: x":                `x.yaml:1: unknown field "nane"; did you mean name?`,
			"jobs:\n- kee: x":        `x.yaml:2: unknown field "kee"; did you mean key?`,
			"name: x\nzebra: {}":     `x.yaml:2: unknown field "zebra"; the keys here are name, jobs`,
			"jobs:\n  !x y\nname: a": "x.yaml:2: anchors, aliases and tags of YAML are not supported",
			"jobs:\n- {key: [a]}":    "x.yaml:2: key must be a text; it is a list",
		} {
			_, err := read(text)
			require.ErrorContains(t, err, says)
		}
	})

	t.Run("TakesTimeInProportionToTheFile", func(t *testing.T) {
		t.Parallel()
		var b bytes.Buffer
		b.WriteString("jobs:\n")
		for i := range 5000 { // each part would take as long as the whole file
			fmt.Fprintf(&b, "- {key: n%d, job: {prompt: a fox, params: {seed: %d}}}\n", i, i)
		}

		in, err := read(b.String())

		require.NoError(t, err)
		require.Len(t, in.Jobs, 5000)
		require.JSONEq(t, `{"prompt": "a fox", "params": {"seed": 4999}}`, string(in.Jobs[4999].Job))
	})
}

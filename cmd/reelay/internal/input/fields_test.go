package input

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseFields(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "params.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"seed": 9007199254740993}`), 0o600))
	tests := map[string]struct {
		base  string
		pairs []string
		want  map[string]string
		wrong string
	}{
		"AcceptsJSONValues": {pairs: []string{"seed=7", "loop=true", `name="7"`},
			want: map[string]string{"seed": "7", "loop": "true", "name": `"7"`}},
		"TreatsOtherValuesAsText": {pairs: []string{"resolution=720p", "fps=NaN", "seed=007", "empty="},
			want: map[string]string{"resolution": `"720p"`, "fps": `"NaN"`, "seed": `"007"`, "empty": `""`}},
		"KeepsFurtherEqualsSigns": {pairs: []string{"a=b=c"}, want: map[string]string{"a": `"b=c"`}},
		"LetsAPairReplaceTheBase": {base: `{"seed":1,"fps":24}`, pairs: []string{"seed=2"},
			want: map[string]string{"seed": "2", "fps": "24"}},
		"ReadsAFileAndKeepsLargeNumbers": {base: "@" + file, want: map[string]string{"seed": "9007199254740993"}},
		"ReadsTheStandardInput":          {base: "@-", want: map[string]string{"fps": "12"}},
		"RefusesAPairWithoutAName":       {pairs: []string{"=7"}, wrong: "is not name=value"},
		"RefusesAPairWithoutAValue":      {pairs: []string{"seed"}, wrong: "is not name=value"},
		"RefusesANameTwice":              {pairs: []string{"seed=1", "seed=2"}, wrong: "seed is given twice"},
		"RefusesAList":                   {base: `[1]`, wrong: "not a JSON object"},
		"RefusesNull":                    {base: `null`, wrong: "not a JSON object"},
		"RefusesAMissingFile":            {base: "@" + file + ".not", wrong: "no such file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := ParseFields(test.base, test.pairs, strings.NewReader(`{"fps":12}`))

			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			written := map[string]string{}
			for name, value := range got {
				written[name] = string(value)
			}
			require.Equal(t, test.want, written)
		})
	}
}

func TestSetField(t *testing.T) {
	t.Parallel()

	require.ErrorContains(t, Fields{"fps": []byte("24")}.Set("fps", 12), "given twice")
	require.ErrorContains(t, Fields{}.Set("pace", math.NaN()), "finite number")
}

func TestReadText(t *testing.T) {
	t.Parallel()

	t.Run("StopsAtItsLimit", func(t *testing.T) {
		t.Parallel()

		_, err := ReadText("/dev/zero", nil)

		require.ErrorContains(t, err, "longer than")
	})
	t.Run("RefusesInvalidUTF8", func(t *testing.T) {
		t.Parallel()

		_, err := ReadText("-", strings.NewReader("a\xff"))

		require.ErrorContains(t, err, "not valid UTF-8")
	})
}

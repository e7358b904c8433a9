package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		events []string
		prints []string
		total  string
	}{
		"CountsSubtestsInsteadOfTheirParent": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/One"}`,
				`{"Action":"run","Package":"p","Test":"TestA/Two"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/One"}`,
				`{"Action":"skip","Package":"p","Test":"TestA/Two"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Elapsed":1.25}`,
			},
			prints: []string{"ok    p  1.2 s, 2 tests"},
			total:  "1 passed, 0 failed, 1 skipped",
		},
		"NamesWhatWasSlow": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/One"}`,
				`{"Action":"run","Package":"p","Test":"TestB"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/One","Elapsed":21.04}`,
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":60}`,
				`{"Action":"pass","Package":"p","Test":"TestB","Elapsed":30}`,
				`{"Action":"pass","Package":"p","Elapsed":60}`,
			},
			prints: []string{"ok    p  60.0 s, 2 tests", "slow  p  30.0 s, TestB", "slow  p  21.0 s, TestA/One"},
			total:  "2 passed, 0 failed, 0 skipped",
		},
		"CountsAFailureOnceAndShowsWhatItSaid": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/One"}`,
				`{"Action":"output","Package":"p","Test":"TestA/One","Output":"it broke\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/One"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p","Elapsed":2}`,
			},
			prints: []string{"it broke", "FAIL  p  2.0 s"},
			total:  "0 passed, 1 failed, 0 skipped",
		},
		"CountsAParentThatFailsByItself": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/One"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/One"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			total: "1 passed, 1 failed, 0 skipped",
		},
		"CountsAPackageThatDoesNotBuild": {
			events: []string{
				`{"ImportPath":"p [p.test]","Action":"build-output","Output":"undefined: x\n"}`,
				`{"ImportPath":"p [p.test]","Action":"build-fail"}`,
				`{"Action":"output","Package":"p","Output":"FAIL p [build failed]\n"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			},
			prints: []string{"undefined: x", "FAIL p [build failed]"},
			total:  "0 passed, 1 failed, 0 skipped",
		},
		"CountsAPackageWhoseProcessDies": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: oh\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			prints: []string{"panic: oh", "running when its process ended: TestA"},
			total:  "0 passed, 1 failed, 0 skipped",
		},
		"SaysThatNoTestMatched": {
			events: []string{`{"Action":"skip","Package":"p"}`},
			prints: []string{"no test matched"},
			total:  "0 passed, 0 failed, 0 skipped",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var out strings.Builder
			report := newReport(&out)
			require.NoError(t, report.read(strings.NewReader(strings.Join(test.events, "\n")), func() {}))
			report.total()

			for _, line := range test.prints {
				require.Equal(t, 1, strings.Count(out.String(), line), "%q in:\n%s", line, out.String())
			}
			require.True(t, strings.HasSuffix(out.String(), test.total+"\n"), out.String())
		})
	}
}

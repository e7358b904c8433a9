package job

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobDetails(t *testing.T) {
	t.Parallel()

	const id = "01a1fd6a-4f1f-7949-a125-f137b7957b73"
	v := &jobView{Workers: map[models.WorkerID]*models.Worker{"wrk_" + id: {ProviderInstanceID: "local-2a4c07a4"}}}
	for payload, want := range map[string]string{
		`{"dependsOn": ["job_` + id + `", "job_` + id + `"], "fetch": false}`: "depends on job…b7957b73 (/jobs/job_" + id +
			") |  job…b7957b73 (/jobs/job_" + id + ") | fetch no",
		`{"worker": "wrk_` + id + `", "attemptNo": 2}`: "attempt no 2 | worker local-2a4c07a4",
		`{"artifact": "art_` + id + `", "percent": 40.5, "sizeBytes": 5000}`: "artifact art…b7957b73 (/artifacts/art_" + id +
			") | percent 40 % | size 5.0 kB",
		`{"was": {"tier": "PRO", "lane": "CRITICAL"}, "by": "key_` + id + `"}`: "by key…b7957b73 | was lane critical | was tier pro",
		`{"runAt": "2026-11-25T18:47:40.123Z", "gpuSeconds": 61.23}`:           "gpu 1 min 01 s | run at 25 Nov 18:47:40 UTC",
		"{\"reason\": \"a \\u202egnp.exe\", \"none\": null, \"empty\": \"\"}":  "reason a [U+202E]gnp.exe",
		`[]`:   "",
		`null`: "",
		`{`:    "",
	} {
		var shown []string
		for _, d := range v.details([]byte(payload)) {
			text := d.Name + " " + d.Text
			if d.Href != "" {
				text += " (" + d.Href + ")"
			}
			shown = append(shown, text)
		}
		require.Equal(t, want, strings.Join(shown, " | "), payload)
	}
}

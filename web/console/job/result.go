package job

import (
	"bytes"
	"encoding/json"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// heading says in a line what the job is: its prompt, or the model of a job that has none.
func (v *jobView) heading() string {
	switch {
	case !v.DeletedAt.IsZero():
		return "Deleted job"
	case v.Prompt == "":
		return v.Model
	}
	return v.Prompt
}

// output returns the job's output as text, or "" if there is none.
func (v *jobView) output() string {
	var text bytes.Buffer
	if len(v.Output) == 0 || json.Indent(&text, v.Output, "", "  ") != nil {
		return ""
	}
	return ui.Upright(text.String())
}

// doneOf returns how many of all steps or frames are done, or "" if that is unknown. A
// completed job has done all of them, even those after its last report, and a draft its steps.
func (v *jobView) doneOf(n, total *int) string {
	if v.Status == models.JobCompleted && total != nil {
		n = total
		if v.DraftSteps > 0 {
			n = new(min(v.DraftSteps, *total))
		}
	}
	if n == nil {
		return ""
	}
	return intOr(n) + " of " + intOr(total)
}

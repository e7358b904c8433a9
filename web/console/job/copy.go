package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// rawJob is everything about a job, as JSON. It has no secret: neither fencing tokens, nor the
// handle of outside work, nor the digest, from which a prompt could be guessed.
type rawJob struct {
	*models.Job
	RequestDigest []byte             `json:"request_digest,omitempty"`
	Handle        string             `json:"handle,omitempty"`
	Prompt        string             `json:"prompt"`
	Attempts      []rawAttempt       `json:"attempts"`
	Artifacts     []*models.Artifact `json:"artifacts"`
	DependsOn     []models.JobID     `json:"depends_on"`
	// Events are the newest ones, newest first.
	Events []*models.JobEvent `json:"events"`
}

type rawAttempt struct {
	*models.Attempt
	FencingToken   string `json:"fencing_token,omitempty"`
	LeaseRequestID string `json:"lease_request_id,omitempty"`
}

// jobRaw returns a job as JSON, for people.
func (c *controller) jobRaw(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readJobView(r, p)
	if err != nil {
		return err
	}
	raw := rawJob{Job: v.Job, Prompt: v.Prompt, Artifacts: v.Artifacts, DependsOn: v.parentIDs(), Events: v.Events, Attempts: []rawAttempt{}}
	for _, a := range v.Attempts {
		raw.Attempts = append(raw.Attempts, rawAttempt{Attempt: a})
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetIndent("", "  ")
	if err := out.Encode(raw); err != nil {
		return fmt.Errorf("encode job %s: %w", v.ID, err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = text.WriteTo(w) // the browser may be gone
	return nil
}

func (v *jobView) parentIDs() []models.JobID {
	ids := []models.JobID{}
	for _, parent := range v.Parents {
		if parent != nil {
			ids = append(ids, parent.ID)
		}
	}
	return ids
}

// submitInput returns the SubmitJobInput that submits the job again. Times are left out: they
// are over.
func (v *jobView) submitInput() map[string]any {
	in := map[string]any{"model": v.Model, "tier": v.Tier}
	set := func(name string, value any, given bool) {
		if given {
			in[name] = value
		}
	}
	set("prompt", v.Prompt, v.Prompt != "")
	set("params", json.RawMessage(v.Params), len(v.Params) > 0)
	set("priority", v.Priority, v.Priority != 0)
	set("userId", v.UserID, v.UserID != "")
	set("metadata", json.RawMessage(v.Metadata), len(v.Metadata) > 0)
	set("callbackUrl", v.CallbackURL, v.CallbackURL != "")
	set("region", v.Region, v.Region != "")
	set("requireRegion", true, v.RequireRegion)
	set("retry", v.RetryPolicy, v.RetryPolicy != nil)
	set("atMostOnce", true, v.AtMostOnce)
	set("reuse", true, v.Reuse)
	set("maxAttempts", v.MaxAttempts, !v.AtMostOnce)
	set("timeoutSeconds", v.TimeoutSeconds, true)
	set("maxPreemptions", v.MaxPreemptions, v.MaxPreemptions != nil)
	set("maxPricePerHour", v.MaxPricePerHour, v.MaxPricePerHour != nil)
	set("fallback", v.otherModels(), v.Fallback != nil)
	set("draft", map[string]int{"steps": v.DraftSteps}, v.DraftSteps > 0)
	return in
}

// otherModels are the models that may render a copy of the job instead of the one that it has now.
func (v *jobView) otherModels() []string { return lo.Without(v.FallbackModels(), v.Model) }

const submitMutation = "mutation ($input: SubmitJobInput!) { submitJob(input: $input) { job { id status } } }"

// pythonSubmit takes the variables, the address and the query. No JSON ends a raw string of Python:
// three quotes never follow each other in it.
const pythonSubmit = `import json
import os
import requests

variables = json.loads(r"""
%s
""")
answer = requests.post(
    %s,
    headers={"Authorization": f"Bearer {os.environ['REELAY_API_KEY']}"},
    json={"query": %s, "variables": variables},
)
print(answer.json())`

// snippet is a text to copy.
type snippet struct{ Name, Text string }

// snippets submit the job again, from a shell, GraphiQL and Python.
func (v *jobView) snippets() []snippet {
	if !v.DeletedAt.IsZero() {
		return nil
	}
	variables := map[string]any{"input": v.submitInput()}
	return []snippet{
		{"curl", fmt.Sprintf("curl %s/graphql \\\n  -H \"Authorization: Bearer $REELAY_API_KEY\" \\\n  -H 'Content-Type: application/json' \\\n  -d %s",
			v.Origin, shellQuote(indentedJSON(map[string]any{"query": submitMutation, "variables": variables})))},
		{"GraphQL", submitMutation + "\n\n# variables\n" + indentedJSON(variables)},
		{"Python", fmt.Sprintf(pythonSubmit, indentedJSON(variables), strconv.Quote(v.Origin+"/graphql"), strconv.Quote(submitMutation))},
	}
}

// indentedJSON is JSON for people. Its values are all valid.
func indentedJSON(value any) string {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(value); err != nil {
		return "{}"
	}
	return strings.TrimSpace(text.String())
}

// shellQuote returns a word of a POSIX shell.
func shellQuote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// copied is the page's text to copy, safe to show. What is copied has the same marks.
func (s snippet) shown() string { return ui.Upright(s.Text) }

// readJobView reads all that a job's page shows.
func (c *controller) readJobView(r *http.Request, p jobs.Principal) (*jobView, error) {
	job, err := c.Reads.Jobs.Get(r.Context(), p, jobID(r))
	if err != nil {
		return nil, err
	}
	v := &jobView{Job: job, Origin: c.Origin(r), Now: time.Now()}
	if err := c.readJobParts(r.Context(), p, v); err != nil {
		return nil, err
	}
	edges, err := c.Reads.Jobs.Of(p, job)
	if err != nil {
		return nil, err
	}
	prompts, err := edges.Prompts(r.Context())
	if err != nil {
		return nil, err
	}
	v.Prompt = shownPrompt(r.Context(), prompts[job.ID])
	if err := c.readEvents(r, p, v); err != nil {
		return nil, err
	}
	return v, c.readEventKeys(r.Context(), p, v)
}

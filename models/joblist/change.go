package joblist

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// JobChange is one change of a job's status. Seq is that of its event. COMPLETING has no
// event: then Seq is the job's newest.
type JobChange struct {
	JobID     models.JobID     `bun:"job_id"`
	Seq       int              `bun:"seq"`
	Status    models.JobStatus `bun:"status"`
	AttemptNo int              `bun:"attempt_no"` // of COMPLETING
	At        time.Time        `bun:"at"`
}

// ListJobChanges returns the changes of status after a time, and all jobs that are COMPLETING
// now. The changes of one job are in order.
func ListJobChanges(ctx context.Context, db bun.IDB, after time.Time) ([]JobChange, error) {
	var found []JobChange
	err := db.NewRaw(`
		SELECT job_id, seq, 0 AS attempt_no, created_at AS at, CASE type
			WHEN 'LEASED' THEN 'ASSIGNED' WHEN 'STARTED' THEN 'RUNNING'
			WHEN 'REQUEUED' THEN 'QUEUED' WHEN 'RETRY_SCHEDULED' THEN 'SCHEDULED' ELSE type END AS status
		FROM job_events
		WHERE created_at > ?0 AND type IN ('QUEUED', 'SCHEDULED', 'BLOCKED', 'LEASED', 'STARTED', 'REQUEUED',
			'RETRY_SCHEDULED', 'COMPLETED', 'FAILED', 'CANCELLED')
			AND NOT (type = 'QUEUED' AND jsonb_exists(payload, 'from')) -- it only moved to another lane
		UNION ALL
		SELECT id, event_seq, attempt_no, clock_timestamp(), status FROM jobs WHERE status = 'COMPLETING'
		ORDER BY job_id, seq, attempt_no`, after).Scan(ctx, &found)
	return found, err
}

// Matches reports whether a job matches the filter. It ignores Dead, which needs more than the
// job's row.
func (f JobFilter) Matches(j *models.Job) bool {
	return (f.AccountID == "" || f.AccountID == j.AccountID) &&
		!slices.ContainsFunc(f.facets(), func(facet Facet) bool { return !facet.matches(j) }) &&
		!slices.ContainsFunc(f.Terms.Words, func(word Word) bool { return !word.matches(j) }) &&
		!slices.ContainsFunc(f.Terms.Metadata, func(field MetadataField) bool { return !field.matches(j) }) &&
		(f.Terms.WasteOver == nil || j.WastedGPUSeconds > *f.Terms.WasteOver) &&
		(f.CreatedAfter.IsZero() || j.CreatedAt.After(f.CreatedAfter)) &&
		(f.CreatedBefore.IsZero() || j.CreatedAt.Before(f.CreatedBefore))
}

func (f Facet) matches(j *models.Job) bool {
	value := map[string]string{
		"status": string(j.Status), "tier": string(j.Tier), "type": j.Type, "model": j.Model,
		"user_id": j.UserID, "lane": string(j.Lane), "failure_class": string(j.FailureClass),
	}[f.Column]
	met := slices.ContainsFunc(f.Values, func(wanted string) bool {
		return value == wanted || f.Prefix && strings.HasPrefix(value, wanted)
	})
	return met != f.Not
}

func (field MetadataField) matches(j *models.Job) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(j.Metadata, &fields) != nil {
		return false
	}
	return slices.Contains(metadataWords(json.RawMessage(`{"x": `+string(fields[field.Key])+`}`)), field.Value)
}

func (w Word) matches(j *models.Job) bool {
	if w.From != "" && w.From <= j.ID && j.ID <= w.To {
		return true
	}
	return w.Text != "" && (j.IdempotencyKey == w.Text || slices.Contains(metadataWords(j.Metadata), w.Text))
}

// metadataWords returns the words that job_words stores for a job.
func metadataWords(metadata json.RawMessage) []string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(metadata, &fields) != nil {
		return nil // there is none
	}
	var words []string
	for _, field := range fields {
		var text string
		switch {
		case json.Unmarshal(field, &text) == nil:
		case strings.ContainsAny(string(field[:1]), `[{n`):
			continue
		default:
			text = string(field)
		}
		if n := utf8.RuneCountInString(text); n > 0 && n <= 200 {
			words = append(words, text)
		}
	}
	return words
}

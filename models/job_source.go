package models

import (
	"context"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// JobSource says what a job takes from another job, its source.
type JobSource struct {
	bun.BaseModel `bun:"table:job_sources"`

	JobID    JobID `bun:"job_id,pk"`
	SourceID JobID `bun:"source_id,pk"`
	// Takes are video, firstFrame, lastFrame, thumbnail, output, and output with a path, such as
	// output.text. A value is in the list as often as the job's texts contain it.
	Takes []string `bun:"takes,array"`
}

// InsertSources records what jobs take from others, which are locked. What is recorded already
// stays.
func InsertSources(ctx context.Context, tx bun.Tx, rows []JobSource) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
	return err
}

// DropSources forgets what a job takes from others.
func DropSources(ctx context.Context, tx bun.Tx, job JobID) error {
	_, err := tx.NewRaw("DELETE FROM job_sources WHERE job_id = ?", job).Exec(ctx)
	return err
}

// ListSources returns what these jobs take from others, by job.
func ListSources(ctx context.Context, db bun.IDB, jobs []JobID) (found []JobSource, err error) {
	err = db.NewRaw("SELECT * FROM job_sources WHERE job_id = ANY(?::uuid[]) ORDER BY job_id, source_id", postgres.UUIDArray(jobs)).Scan(ctx,
		&found)
	return found, err
}

// FindUserOf returns a job that has not ended and takes something from this one, or
// sql.ErrNoRows.
func FindUserOf(ctx context.Context, db bun.IDB, source JobID) (user JobID, err error) {
	err = db.NewRaw(`
		SELECT s.job_id FROM job_sources s JOIN jobs j ON j.id = s.job_id
		WHERE s.source_id IN (SELECT sources_of(?)) AND j.completed_at IS NULL ORDER BY s.job_id LIMIT 1`, source).Scan(ctx, &user)
	return user, err
}

// OutputValue is a value of a job's output.
type OutputValue struct {
	JobID JobID `bun:"job_id"`
	// Take is output, or output with the path of the value, such as output.lines.0.text.
	Take string `bun:"take"`
}

// MeasureOutputs returns the lengths of values of outputs, in bytes: of a string as it is, and of
// any other value as JSON. It leaves out values that do not exist, and those of a job that is not
// COMPLETED, unless that job is in outputs: these are outputs that are not written yet.
func MeasureOutputs(ctx context.Context, db bun.IDB, values []OutputValue, outputs map[JobID]string) (lengths map[OutputValue]int,
	err error) {
	lengths = map[OutputValue]int{}
	if len(values) == 0 {
		return lengths, nil
	}
	var ended []JobID
	var texts []string
	for id, output := range outputs {
		ended, texts = append(ended, id), append(texts, output)
	}
	var rows []struct {
		OutputValue
		Length int `bun:"length"`
	}
	err = db.NewRaw(`
		WITH ended AS (SELECT id, nullif(output, '')::jsonb AS output FROM unnest(?2::uuid[], ?3::text[]) AS t (id, output))
		SELECT v.job_id, v.take, octet_length(output_text(coalesce(e.output, j.output), v.take)) AS length
		FROM unnest(?0::uuid[], ?1::text[]) AS v (job_id, take)
		JOIN jobs j ON j.id = v.job_id LEFT JOIN ended e ON e.id = v.job_id
		WHERE (j.status = 'COMPLETED' OR e.id IS NOT NULL) AND output_text(coalesce(e.output, j.output), v.take) IS NOT NULL`,
		postgres.UUIDArray(postgres.Column(values, func(v OutputValue) JobID { return v.JobID })),
		postgres.TextArray(postgres.Column(values, func(v OutputValue) string { return v.Take })),
		postgres.UUIDArray(ended), postgres.TextArray(texts)).Scan(ctx, &rows)
	for _, row := range rows {
		lengths[row.OutputValue] = row.Length
	}
	return lengths, err
}

// ReadOutputs returns the values of outputs that a job's texts contain, as far as they exist.
func ReadOutputs(ctx context.Context, db bun.IDB, job JobID) (map[OutputValue]string, error) {
	var rows []struct {
		OutputValue
		Text string `bun:"text"`
	}
	err := db.NewRaw(`
		SELECT DISTINCT s.source_id AS job_id, t.take, output_text(p.output, t.take) AS text
		FROM job_sources s CROSS JOIN unnest(s.takes) AS t (take) JOIN jobs p ON p.id = s.source_id
		WHERE s.job_id = ? AND p.status = 'COMPLETED' AND output_text(p.output, t.take) IS NOT NULL`, job).Scan(ctx, &rows)
	values := map[OutputValue]string{}
	for _, row := range rows {
		values[row.OutputValue] = row.Text
	}
	return values, err
}

// InputFile is a file that a job starts from.
type InputFile struct {
	// Artifact is an INPUT, or the result or thumbnail of a source.
	Artifact
	UsedBy JobID `bun:"used_by"`
	// SourceID is the job as which the params name it: an approval has the result of another one.
	SourceID JobID `bun:"source_id,nullzero"`
	// Reference is how the params of the job name an INPUT; empty for any other.
	Reference string `bun:"reference"`
}

// ListInputFiles returns the files that these jobs start from, as far as they exist: inputs,
// and the results and thumbnails of sources.
func ListInputFiles(ctx context.Context, db bun.IDB, jobs []JobID) (found []*InputFile, err error) {
	err = db.NewRaw(`
		SELECT ar.*, u.job_id AS used_by, u.reference, NULL::uuid AS source_id
		FROM input_uses u JOIN artifacts ar ON ar.id = u.artifact_id
		WHERE u.job_id IN (?0)
		UNION ALL
		SELECT ar.*, s.job_id, '', s.source_id FROM job_sources s JOIN jobs j ON j.id = s.source_id JOIN artifacts ar ON ar.id = j.result_id
		WHERE s.job_id IN (?0) AND s.takes && '{video,firstFrame,lastFrame}'
		UNION ALL
		SELECT ar.*, s.job_id, '', s.source_id FROM job_sources s JOIN artifacts ar ON ar.job_id = made_by(s.source_id) AND ar.type = 'THUMBNAIL'
		WHERE s.job_id IN (?0) AND 'thumbnail' = ANY(s.takes)`, bun.List(jobs)).Scan(ctx, &found)
	return found, err
}

// HasThumbnails returns those of these jobs that have a thumbnail.
func HasThumbnails(ctx context.Context, db bun.IDB, jobs []JobID) (found []JobID, err error) {
	err = db.NewRaw(`SELECT id FROM unnest(?::uuid[]) AS j (id) WHERE EXISTS (
		SELECT FROM artifacts ar WHERE ar.job_id = made_by(j.id) AND ar.type = 'THUMBNAIL')`,
		postgres.UUIDArray(jobs)).Scan(ctx,
		&found)
	return found, err
}

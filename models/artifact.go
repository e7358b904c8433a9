package models

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// ArtifactType is the purpose of an artifact.
type ArtifactType string

const (
	ArtifactInput       ArtifactType = "INPUT"
	ArtifactCheckpoint  ArtifactType = "CHECKPOINT"
	ArtifactPreview     ArtifactType = "PREVIEW"
	ArtifactFinalVideo  ArtifactType = "FINAL_VIDEO"
	ArtifactThumbnail   ArtifactType = "THUMBNAIL"
	ArtifactSpritesheet ArtifactType = "SPRITESHEET"
	ArtifactLog         ArtifactType = "LOG"
	// ArtifactEvidence is a frame that shows why a video was refused.
	ArtifactEvidence ArtifactType = "EVIDENCE"
)

// Artifact is an immutable object that was verified in the object store. An INPUT belongs to
// an account and has neither job nor attempt; all others have both.
type Artifact struct {
	bun.BaseModel `bun:"table:artifacts,alias:ar"`

	ID          ArtifactID   `bun:"id,pk" json:"id"`
	JobID       JobID        `bun:"job_id" json:"job_id"`
	AccountID   AccountID    `bun:"account_id" json:"account_id"`
	AttemptID   AttemptID    `bun:"attempt_id" json:"attempt_id"`
	Type        ArtifactType `bun:"type" json:"type"`
	ObjectKey   string       `bun:"object_key" json:"object_key"`
	SizeBytes   int64        `bun:"size_bytes" json:"size_bytes"`
	Checksum    string       `bun:"checksum" json:"checksum"`
	ContentType string       `bun:"content_type" json:"content_type"`
	// Blake3 is the BLAKE3 hash of an input that came in the body of a request; nil for other artifacts.
	Blake3 []byte `bun:"blake3,nullzero" json:"blake3,omitzero"`
	// Step and Percent are the position at which a checkpoint resumes.
	Step       *int            `bun:"step" json:"step"`
	Percent    *float64        `bun:"percent" json:"percent"`
	Metadata   json.RawMessage `bun:"metadata,type:jsonb,nullzero" json:"metadata,omitzero"`
	CreatedAt  time.Time       `bun:"created_at,nullzero,default:clock_timestamp()" json:"created_at,omitzero"`
	ExpiresAt  time.Time       `bun:"expires_at,nullzero" json:"expires_at,omitzero"`
	RejectedAt time.Time       `bun:"rejected_at,nullzero" json:"rejected_at,omitzero"`
}

// KnownObject is what the database knows about an uploaded object's key.
type KnownObject struct {
	// Issued reports whether the key is issued. It is locked until the transaction ends, so
	// that the object is not deleted before.
	Issued bool
	// Artifact is the artifact of the object, if it has one.
	Artifact *Artifact
}

const lockUploadsSQL = `
	SELECT object_key FROM uploads WHERE object_key = ANY ((SELECT @keys::text[])::text[])
	ORDER BY object_key FOR KEY SHARE`

var (
	findUploadsSQL   = postgres.SelectOf[IssuedUpload]("WHERE u.object_key = ANY ((SELECT @keys::text[])::text[])")
	findArtifactsSQL = postgres.SelectOf[Artifact]("WHERE ar.object_key = ANY ((SELECT @keys::text[])::text[])")
)

// LookUpObjects returns what the database knows about keys.
func LookUpObjects(ctx context.Context, tx bun.Tx, keys []string) (map[string]KnownObject, error) {
	var issued []string
	args := pgx.NamedArgs{"keys": keys}
	if err := postgres.Read(ctx, tx, lockUploadsSQL, args, &issued); err != nil {
		return nil, err
	}
	var artifacts []*Artifact
	if err := postgres.Read(ctx, tx, findArtifactsSQL, args, &artifacts); err != nil {
		return nil, err
	}
	known := make(map[string]KnownObject, len(keys))
	for _, key := range keys {
		known[key] = KnownObject{Issued: slices.Contains(issued, key)}
	}
	for _, a := range artifacts {
		if was := known[a.ObjectKey]; was.Artifact == nil || a.AttemptID != "" { // other jobs can share the object
			known[a.ObjectKey] = KnownObject{was.Issued, a}
		}
	}
	return known, nil
}

// GetArtifacts returns the artifacts with these ids, in no particular order.
func GetArtifacts(ctx context.Context, db bun.IDB, ids []ArtifactID) ([]*Artifact, error) {
	var found []*Artifact
	err := db.NewSelect().Model(&found).Where("ar.id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// ListArtifacts returns the artifacts of these jobs, oldest first. If types are given, only
// those types.
func ListArtifacts(ctx context.Context, db bun.IDB, jobs []JobID, types ...ArtifactType) ([]*Artifact, error) {
	var found []*Artifact
	q := db.NewSelect().Model(&found).Where("ar.job_id IN (?)", bun.List(jobs)).Order("ar.job_id", "ar.id")
	if len(types) > 0 {
		q = q.Where("ar.type IN (?)", bun.List(types))
	}
	err := q.Scan(ctx)
	return found, err
}

// ListCheckpoints returns a job's checkpoints, without rejected ones, newest first.
func ListCheckpoints(ctx context.Context, db bun.IDB, job JobID, limit int) ([]*Artifact, error) {
	var found []*Artifact
	err := db.NewSelect().Model(&found).
		Where("ar.job_id = ? AND ar.type = 'CHECKPOINT' AND ar.rejected_at IS NULL", job).
		Order("ar.created_at DESC", "ar.id DESC").Limit(int64(limit)).Scan(ctx)
	return found, err
}

// SavedPercents returns what the newest checkpoints of jobs hold, in percent. It reads nothing for no jobs.
func SavedPercents(ctx context.Context, db bun.IDB, jobs []JobID) (map[JobID]float64, error) {
	saved := map[JobID]float64{}
	if len(jobs) == 0 {
		return saved, nil
	}
	var found []struct {
		JobID   JobID   `bun:"job_id"`
		Percent float64 `bun:"percent"`
	}
	err := db.NewRaw(`
		SELECT j.id AS job_id, coalesce(ar.percent, 0) AS percent
		FROM jobs j JOIN artifacts ar ON ar.id = j.latest_checkpoint_id
		WHERE j.id = ANY (?::uuid[])`, postgres.UUIDArray(jobs)).Scan(ctx, &found)
	for _, s := range found {
		saved[s.JobID] = s.Percent
	}
	return saved, err
}

// RejectCheckpoint marks a checkpoint of the job so that it is never handed out again. It
// returns sql.ErrNoRows if the job has no such checkpoint.
func RejectCheckpoint(ctx context.Context, tx bun.Tx, job JobID, id ArtifactID) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE artifacts SET rejected_at = coalesce(rejected_at, clock_timestamp())
		WHERE id = ? AND job_id = ? AND type = 'CHECKPOINT'`, id, job).Exec(ctx))
}

// RejectCheckpoints marks all checkpoints of the jobs so that they are never handed out again.
func RejectCheckpoints(ctx context.Context, tx bun.Tx, jobs []JobID) error {
	_, err := tx.NewRaw(`
		UPDATE artifacts SET rejected_at = clock_timestamp()
		WHERE job_id = ANY (?::uuid[]) AND type = 'CHECKPOINT' AND rejected_at IS NULL`, postgres.UUIDArray(jobs)).Exec(ctx)
	return err
}

// IssuedUpload is an object key that was issued to an attempt or, for an INPUT, to an account
// and the artifact that it will become.
type IssuedUpload struct {
	bun.BaseModel `bun:"table:uploads,alias:u"`

	ObjectKey   string       `bun:"object_key,pk" json:"object_key"`
	JobID       JobID        `bun:"job_id" json:"job_id"`
	AttemptID   AttemptID    `bun:"attempt_id" json:"attempt_id"`
	AccountID   AccountID    `bun:"account_id" json:"account_id"`
	ArtifactID  ArtifactID   `bun:"artifact_id" json:"artifact_id"`
	Type        ArtifactType `bun:"type" json:"type"`
	ContentType string       `bun:"content_type" json:"content_type"`
	SizeBytes   int64        `bun:"size_bytes" json:"size_bytes"`
	Checksum    string       `bun:"checksum" json:"checksum"`
	Blake3      []byte       `bun:"blake3,nullzero" json:"blake3,omitzero"`
	CreatedAt   time.Time    `bun:"created_at,nullzero,default:clock_timestamp()" json:"created_at,omitzero"`
}

// AsInput returns the input that the upload becomes when a job uses it.
func (u *IssuedUpload) AsInput() *Artifact {
	return &Artifact{
		ID: u.ArtifactID, AccountID: u.AccountID, Type: u.Type, ObjectKey: u.ObjectKey, SizeBytes: u.SizeBytes, Checksum: u.Checksum,
		ContentType: u.ContentType, Blake3: u.Blake3, CreatedAt: u.CreatedAt,
	}
}

// InsertUpload writes an issued key.
func InsertUpload(ctx context.Context, db bun.IDB, u *IssuedUpload) error {
	_, err := db.NewInsert().Model(u).Exec(ctx)
	return err
}

// FindUploads returns the issued keys among these, whoever they were issued to.
func FindUploads(ctx context.Context, db bun.IDB, keys []string) (found []*IssuedUpload, err error) {
	err = postgres.Read(ctx, db, findUploadsSQL, pgx.NamedArgs{"keys": keys}, &found)
	return found, err
}

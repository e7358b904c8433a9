package inputs

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/media"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"lukechampine.com/blake3"
)

const (
	// MaxPutBytes bounds a video or sound that comes in the body of a request. Larger ones, up to 500
	// MB, are uploaded through a link.
	MaxPutBytes = 64 << 20
	// UnusedFor is how long an input waits for a job to use it.
	UnusedFor = 24 * time.Hour
	// foundFor is how long an input that is found by its hash exists at least.
	foundFor = UnusedFor / 2
)

// PutFile stores a file that came in the body of a request, and returns the input by whose id a job
// names it: an image of up to 20 MB, or a video or sound of up to MaxPutBytes. hash is the BLAKE3
// hash that the bytes must have, or nil. PutFile returns INVALID_INPUT and QUOTA_EXCEEDED as Put and
// Request do, and CHECKSUM_MISMATCH.
func (i *Inputs) PutFile(ctx context.Context, p jobs.Principal, contentType string, body io.Reader, hash []byte) (*models.Artifact, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	data, contentType, err := readFile(ctx, contentType, body)
	if err != nil {
		return nil, err
	}
	sum := blake3.Sum256(data)
	if hash != nil && !bytes.Equal(hash, sum[:]) {
		return nil, jobs.Mismatch("The bytes that arrived have the BLAKE3 hash %s, not %s: send the file again, or correct the hash.",
			hex.EncodeToString(sum[:]), hex.EncodeToString(hash))
	}
	if err := i.room(ctx, p.AccountID, int64(len(data))); err != nil {
		return nil, err
	}
	issued, err := i.issue(ctx, p.AccountID, contentType, int64(len(data)), crc32c(data), sum[:])
	if err != nil {
		return nil, err
	}
	if err := i.Objects.Write(ctx, upload(issued), data); err != nil {
		return nil, jobs.StoreAway(ctx, err)
	}
	return announced(issued), nil
}

// announced is an input that no job uses yet.
func announced(issued *models.IssuedUpload) *models.Artifact {
	input := issued.AsInput()
	input.ExpiresAt = input.CreatedAt.Add(UnusedFor)
	return input
}

// readFile reads a file and returns it with its media type.
func readFile(ctx context.Context, contentType string, body io.Reader) ([]byte, string, error) {
	if plain, _, err := mime.ParseMediaType(contentType); err == nil {
		contentType = plain
	}
	head, err := io.ReadAll(io.LimitReader(body, media.HeadBytes))
	if err != nil {
		return nil, "", errIncomplete
	}
	kind := media.Detect(head)
	switch advice := kind.Advice(); {
	case advice != "":
		return nil, "", apierror.Invalid("", "The file cannot be used: it is %s.", advice)
	case !slices.Contains(media.ContentTypes, contentType) && slices.Contains(media.ContentTypes, kind.Type):
		contentType = kind.Type // browsers call a QuickTime file video/quicktime
	}
	isMedia, most := slices.Contains(media.ContentTypes, contentType), picture.MaxBytes
	if isMedia {
		most = MaxPutBytes
	}
	data, err := io.ReadAll(io.LimitReader(io.MultiReader(bytes.NewReader(head), body), int64(most)+1))
	switch {
	case err != nil:
		return nil, "", errIncomplete
	case isMedia && len(data) == 0:
		return nil, "", apierror.Invalid("", "The file is empty.")
	case isMedia && len(data) > MaxPutBytes:
		return nil, "", apierror.Invalid("",
			"A video or sound may have %d MB here: upload a larger one with requestInputUpload, or submit it with `reelay submit`.", MaxPutBytes>>20)
	case isMedia:
		if fault := media.Fault(""); errors.As(media.Check(contentType, head), &fault) {
			return nil, "", apierror.Invalid("", "The file cannot be used: %s.", fault)
		}
		return data, contentType, nil
	}
	info, err := checkPicture(ctx, data)
	return data, info.ContentType, err
}

var errIncomplete = apierror.Invalid("", "The upload is incomplete.")

func checkPicture(ctx context.Context, data []byte) (picture.Info, error) {
	info, err := picture.Check(ctx, data)
	if fault := picture.Fault(""); errors.As(err, &fault) {
		err = apierror.Invalid("", "The image cannot be used: %s.", fault)
	}
	return info, err
}

// room returns QUOTA_EXCEEDED if the account has announced too many inputs to announce another.
func (i *Inputs) room(ctx context.Context, account models.AccountID, size int64) error {
	pending, bytes, err := models.CountInputUploads(ctx, i.DB, account, maxPendingInputs)
	if err != nil {
		return fmt.Errorf("count the announced inputs: %w", err)
	}
	if pending >= maxPendingInputs || bytes+size > maxPendingBytes {
		return errInputsFull
	}
	return nil
}

// Find returns an input of the caller's account, whether a job uses it or not yet. It returns NOT_FOUND.
func (i *Inputs) Find(ctx context.Context, p jobs.Principal, id models.ArtifactID) (*models.Artifact, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("input")
	}
	issued, err := models.FindInputUpload(ctx, i.DB, p.AccountID, id)
	if err == nil {
		return announced(issued), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read input %s: %w", id, err)
	}
	found, err := models.GetArtifacts(ctx, i.DB, []models.ArtifactID{id})
	if err != nil {
		return nil, fmt.Errorf("read input %s: %w", id, err)
	}
	if len(found) == 0 || found[0].AccountID != p.AccountID || found[0].Type != models.ArtifactInput {
		return nil, apierror.NotFound("input")
	}
	return found[0], nil
}

// FindHash returns an input of the caller's account whose bytes have the BLAKE3 hash, or NOT_FOUND. It
// exists for half a day at least. Only files that came in the body of a request have a hash.
func (i *Inputs) FindHash(ctx context.Context, p jobs.Principal, hash []byte) (*models.Artifact, error) {
	id, err := models.FindInputOfHash(ctx, i.DB, p.AccountID, hash, UnusedFor, foundFor)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "input"), "find an input by its hash")
	}
	return i.Find(ctx, p, id)
}

// Drop deletes an input of the caller's account that no job uses. It returns NOT_FOUND, and CONFLICT if
// a job uses it.
func (i *Inputs) Drop(ctx context.Context, p jobs.Principal, id models.ArtifactID) error {
	if err := p.RequireChange(); err != nil {
		return err
	}
	if !id.Valid() {
		return apierror.NotFound("input")
	}
	err := models.DropInputUpload(ctx, i.DB, p.AccountID, id)
	if !errors.Is(err, sql.ErrNoRows) {
		return apierror.Wrap(err, "delete input %s", id)
	}
	if _, err := i.Find(ctx, p, id); err != nil {
		return err
	}
	return apierror.Conflict("A job uses this file: it is deleted some time after the last such job has ended.")
}

package inputs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/media"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// MaxPutBytes bounds a video or sound that comes in the body of a request. Larger ones, up to 500
// MB, are uploaded through a link.
const MaxPutBytes = 64 << 20

// PutFile stores a file that came in the body of a request, and returns the id by which a job
// names it: an image of up to 20 MB, or a video or sound of up to MaxPutBytes. It returns INVALID_INPUT and QUOTA_EXCEEDED as Put and Request do.
func (i *Inputs) PutFile(ctx context.Context, p jobs.Principal, contentType string, body io.Reader) (models.ArtifactID, error) {
	if plain, _, err := mime.ParseMediaType(contentType); err == nil {
		contentType = plain
	}
	head, err := io.ReadAll(io.LimitReader(body, media.HeadBytes))
	if err != nil {
		return "", apierror.Invalid("", "The upload is incomplete.")
	}
	body = io.MultiReader(bytes.NewReader(head), body)
	kind := media.Detect(head)
	switch advice := kind.Advice(); {
	case advice != "":
		return "", apierror.Invalid("", "The file cannot be used: it is %s.", advice)
	case !slices.Contains(media.ContentTypes, contentType) && slices.Contains(media.ContentTypes, kind.Type):
		contentType = kind.Type // browsers call a QuickTime file video/quicktime
	}
	if !slices.Contains(media.ContentTypes, contentType) {
		a, err := i.Put(ctx, p, "", body)
		if err != nil {
			return "", err
		}
		return a.ID, nil
	}
	if err := p.RequireChange(); err != nil {
		return "", err
	}
	if fault := media.Fault(""); len(head) > 0 && errors.As(media.Check(contentType, head), &fault) {
		return "", apierror.Invalid("", "The file cannot be used: %s.", fault)
	}
	data, err := io.ReadAll(io.LimitReader(body, MaxPutBytes+1))
	switch {
	case err != nil:
		return "", apierror.Invalid("", "The upload is incomplete.")
	case len(data) == 0:
		return "", apierror.Invalid("", "The file is empty.")
	case len(data) > MaxPutBytes:
		return "", apierror.Invalid("",
			"A video or sound may have %d MB here: upload a larger one with requestInputUpload, or submit it with `reelay submit`.", MaxPutBytes>>20)
	}
	if err := i.room(ctx, p.AccountID, int64(len(data))); err != nil {
		return "", err
	}
	issued, err := i.issue(ctx, p.AccountID, contentType, int64(len(data)), crc32c(data))
	if err != nil {
		return "", err
	}
	if err := i.Objects.Write(ctx, upload(issued), data); err != nil {
		return "", jobs.StoreAway(ctx, err)
	}
	return issued.ArtifactID, nil
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

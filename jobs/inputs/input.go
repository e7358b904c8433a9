package inputs

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/media"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Inputs are the files that jobs start from: images, videos and sound that were uploaded through
// a link, and images that the server received itself or fetched from a URL.
type Inputs struct {
	DB      *bun.DB
	Objects jobs.InputObjects
	Remote  Remote
}

// InputUpload says where to send an input, and gives the id by which to name it afterwards.
type InputUpload struct {
	ArtifactID models.ArtifactID
	ObjectKey  string
	Link       jobs.UploadLink
}

const (
	// maxPendingInputs and maxPendingBytes bound how many inputs of an account may be announced
	// and not yet used, and their sizes together.
	maxPendingInputs = 1000
	maxPendingBytes  = 50 << 30

	InputsFolder = "inputs/"
)

var errInputsFull = apierror.Later(apierror.CodeQuotaExceeded, time.Hour,
	"This account has requested uploads that no job has used, and may have %d of them, of %d GB together: use those, or wait until they are a day old.",
	maxPendingInputs, maxPendingBytes>>30)

// Request issues a link to upload a file of exactly this type, size in bytes and CRC32C: an image
// of up to 20 MB, or a video or sound of up to 500 MB. Once it is uploaded, a job names it by its
// id. Request returns INVALID_INPUT, and QUOTA_EXCEEDED if the account has announced too many.
func (i *Inputs) Request(ctx context.Context, p jobs.Principal, contentType string, sizeBytes int64, checksum string) (*InputUpload,
	error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	limit, what := int64(picture.MaxBytes), "An image"
	if slices.Contains(media.ContentTypes, contentType) {
		limit, what = media.MaxBytes, "A video or sound"
	}
	switch advice := media.AdviceOn(contentType); {
	case advice != "":
		return nil, apierror.Invalid("contentType", "The file cannot be used: it is %s.", advice)
	case limit == picture.MaxBytes && !slices.Contains(picture.ContentTypes, contentType):
		return nil, apierror.Invalid("contentType", "The content type of an input must be one of %s.",
			strings.Join(append(slices.Clone(picture.ContentTypes), media.ContentTypes...), ", "))
	case sizeBytes < 1 || sizeBytes > limit:
		return nil, apierror.Invalid("sizeBytes", "%s may have 1 to %d bytes.", what, limit)
	}
	if err := jobs.ValidChecksum(checksum); err != nil {
		return nil, err
	}
	if err := i.room(ctx, p.AccountID, sizeBytes); err != nil {
		return nil, err
	}
	issued, err := i.issue(ctx, p.AccountID, contentType, sizeBytes, checksum, nil)
	if err != nil {
		return nil, err
	}
	link, err := i.Objects.LinkUpload(ctx, upload(issued), jobs.UploadTTL)
	if err != nil {
		return nil, jobs.StoreAway(ctx, err)
	}
	return &InputUpload{issued.ArtifactID, issued.ObjectKey, link}, nil
}

// Put stores an image that came in the body of a request. It returns INVALID_INPUT if the body
// is no image, is too large, or is not of contentType. An empty contentType is not checked.
func (i *Inputs) Put(ctx context.Context, p jobs.Principal, contentType string, body io.Reader) (*models.Artifact, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(body, picture.MaxBytes+1))
	if err != nil {
		return nil, apierror.Invalid("", "The upload of the image is incomplete.")
	}
	info, err := checkPicture(ctx, data)
	if err != nil {
		return nil, err
	}
	if contentType != "" && contentType != info.ContentType {
		return nil, apierror.Invalid("", "The image was declared as %s, but is %s.", text.Clip(contentType, 64), info.ContentType)
	}
	return i.store(ctx, p.AccountID, data, info)
}

// store writes a checked image. Its key is issued before the object is written.
func (i *Inputs) store(ctx context.Context, account models.AccountID, data []byte, info picture.Info) (*models.Artifact, error) {
	issued, err := i.issue(ctx, account, info.ContentType, int64(len(data)), crc32c(data), nil)
	if err != nil {
		return nil, err
	}
	if err := i.Objects.Write(ctx, upload(issued), data); err != nil {
		return nil, jobs.StoreAway(ctx, err)
	}
	return i.keep(ctx, issued.ArtifactID, &info)
}

func (i *Inputs) issue(ctx context.Context, account models.AccountID, contentType string, size int64,
	checksum string, blake3 []byte) (*models.IssuedUpload, error) {
	id := models.NewArtifactID()
	issued := &models.IssuedUpload{
		ObjectKey: inputKey(account, id), AccountID: account, ArtifactID: id, Type: models.ArtifactInput,
		ContentType: contentType, SizeBytes: size, Checksum: checksum, Blake3: blake3,
	}
	return issued, apierror.Wrap(models.InsertUpload(ctx, i.DB, issued), "issue the key of an input")
}

func upload(issued *models.IssuedUpload) jobs.Upload {
	return jobs.Upload{Key: issued.ObjectKey, ContentType: issued.ContentType, SizeBytes: issued.SizeBytes, Checksum: issued.Checksum}
}

func inputKey(account models.AccountID, id models.ArtifactID) string {
	spread := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%s%s/%s/%s", InputsFolder, hex.EncodeToString(spread[:1]), account, id)
}

func crc32c(data []byte) string {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// keep makes an artifact of a checked input in the store, or returns the one that a concurrent
// call made.
func (i *Inputs) keep(ctx context.Context, id models.ArtifactID, info *picture.Info) (*models.Artifact, error) {
	a := &models.Artifact{ID: id}
	if info != nil {
		metadata, err := json.Marshal(info)
		if err != nil {
			return nil, err
		}
		a.Metadata = metadata
	}
	err := models.InsertInput(ctx, i.DB, a)
	if errors.Is(err, sql.ErrNoRows) {
		found, err := models.GetArtifacts(ctx, i.DB, []models.ArtifactID{id})
		if err == nil && len(found) == 0 {
			return nil, apierror.NotFound("input")
		}
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	return a, apierror.Wrap(err, "keep input %s", id)
}

// verify compares an uploaded file with what was announced, and checks that it is of its type:
// an image is decoded, of a video or sound the beginning is read. info is nil for these. field is
// where the params name the file.
func (i *Inputs) verify(ctx context.Context, issued *models.IssuedUpload, field string) (info *picture.Info, err error) {
	stored, err := i.Objects.Stat(ctx, issued.ObjectKey)
	if errors.Is(err, jobs.ErrNoObject) {
		return nil, apierror.Invalid(field, "The file of %s was not uploaded yet: send its bytes to the link that requestInputUpload returned.",
			field)
	}
	if err != nil {
		return nil, jobs.StoreAway(ctx, err)
	}
	if stored.SizeBytes != issued.SizeBytes || stored.Checksum != issued.Checksum {
		return nil, jobs.Mismatch("The store holds %d bytes with checksum %s, not the file that was announced.", stored.SizeBytes,
			stored.Checksum)
	}
	if slices.Contains(media.ContentTypes, issued.ContentType) {
		return nil, i.sniff(ctx, issued, field)
	}
	data, err := i.read(ctx, issued, issued.SizeBytes)
	if err == nil && crc32c(data) != issued.Checksum {
		err = fmt.Errorf("object %s: the bytes read are not those stored", issued.ObjectKey)
	}
	if err != nil {
		return nil, jobs.StoreAway(ctx, err)
	}
	found, err := picture.Check(ctx, data)
	if fault := picture.Fault(""); errors.As(err, &fault) {
		return nil, apierror.Invalid(field, "The uploaded image cannot be used: %s.", fault)
	}
	if err == nil && found.ContentType != issued.ContentType {
		err = apierror.Invalid(field, "The image was announced as %s, but it is %s.", issued.ContentType, found.ContentType)
	}
	return &found, err
}

// sniff checks that an uploaded video or sound begins as its type does.
func (i *Inputs) sniff(ctx context.Context, issued *models.IssuedUpload, field string) error {
	head, err := i.read(ctx, issued, min(issued.SizeBytes, media.HeadBytes))
	if err != nil {
		return jobs.StoreAway(ctx, err)
	}
	if fault := media.Fault(""); errors.As(media.Check(issued.ContentType, head), &fault) {
		return apierror.Invalid(field, "The uploaded file cannot be used: %s.", fault)
	}
	return nil
}

// read returns the first bytes of an input's object.
func (i *Inputs) read(ctx context.Context, issued *models.IssuedUpload, size int64) ([]byte, error) {
	object, err := i.Objects.Open(ctx, issued.ObjectKey, size)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	return io.ReadAll(io.LimitReader(object, size))
}

package jobs

import (
	"bytes"
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

	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Inputs are the images that jobs start from: uploaded through a link, received by the server
// itself, or fetched from a URL.
type Inputs struct {
	DB      *bun.DB
	Objects InputObjects
	Remote  Remote
}

// InputUpload says where to send an input, and gives the id by which to name it afterwards.
type InputUpload struct {
	ArtifactID models.ArtifactID
	ObjectKey  string
	Link       UploadLink
}

const (
	// referenceParam is the parameter that names an input.
	referenceParam = "referenceImage"
	ReferenceField = "params." + referenceParam
	// maxPendingInputs bounds how many inputs of an account may be announced and not yet used.
	maxPendingInputs = 1000

	InputsFolder = "inputs/"
)

var errInputsFull = apierror.Later(apierror.CodeQuotaExceeded, time.Hour,
	"This account has requested %d uploads of images that no job has used: use those, or wait until they are a day old.", maxPendingInputs)

// Request issues a link to upload an image of exactly this type, size in bytes (up to 20 MB)
// and CRC32C. Once it is uploaded, a job names it by its id. Request returns INVALID_INPUT,
// and QUOTA_EXCEEDED if the account has announced too many.
func (i *Inputs) Request(ctx context.Context, p Principal, contentType string, sizeBytes int64, checksum string) (*InputUpload, error) {
	switch {
	case !slices.Contains(picture.ContentTypes, contentType):
		return nil, apierror.Invalid("contentType", "The content type of an image must be %s.", strings.Join(picture.ContentTypes, ", "))
	case sizeBytes < 1 || sizeBytes > picture.MaxBytes:
		return nil, apierror.Invalid("sizeBytes", "An image may have 1 to %d bytes.", picture.MaxBytes)
	}
	if err := validChecksum(checksum); err != nil {
		return nil, err
	}
	pending, err := models.CountInputUploads(ctx, i.DB, p.AccountID, maxPendingInputs)
	if err != nil {
		return nil, fmt.Errorf("count the announced inputs: %w", err)
	}
	if pending >= maxPendingInputs {
		return nil, errInputsFull
	}
	issued, err := i.issue(ctx, p.AccountID, contentType, sizeBytes, checksum)
	if err != nil {
		return nil, err
	}
	link, err := i.Objects.LinkUpload(ctx, upload(issued), UploadTTL)
	if err != nil {
		return nil, StoreAway(ctx, err)
	}
	return &InputUpload{issued.ArtifactID, issued.ObjectKey, link}, nil
}

// Put stores an image that came in the body of a request. It returns INVALID_INPUT if the body
// is no image, is too large, or is not of contentType. An empty contentType is not checked.
func (i *Inputs) Put(ctx context.Context, p Principal, contentType string, body io.Reader) (*models.Artifact, error) {
	data, err := io.ReadAll(io.LimitReader(body, picture.MaxBytes+1))
	if err != nil {
		return nil, apierror.Invalid("", "The image did not arrive whole.")
	}
	info, err := picture.Check(ctx, data)
	if fault := picture.Fault(""); errors.As(err, &fault) {
		return nil, apierror.Invalid("", "The image cannot be used: %s.", fault)
	}
	if err != nil {
		return nil, err
	}
	if contentType != "" && contentType != info.ContentType {
		return nil, apierror.Invalid("", "The image is said to be %s, but it is %s.", text.Clip(contentType, 64), info.ContentType)
	}
	return i.store(ctx, p.AccountID, data, info)
}

// store writes a checked image. Its key is issued before the object is written.
func (i *Inputs) store(ctx context.Context, account models.AccountID, data []byte, info picture.Info) (*models.Artifact, error) {
	issued, err := i.issue(ctx, account, info.ContentType, int64(len(data)), crc32c(data))
	if err != nil {
		return nil, err
	}
	if err := i.Objects.Write(ctx, upload(issued), data); err != nil {
		return nil, StoreAway(ctx, err)
	}
	return i.keep(ctx, issued.ArtifactID, info)
}

func (i *Inputs) issue(ctx context.Context, account models.AccountID, contentType string, size int64, checksum string) (*models.IssuedUpload, error) {
	id := models.NewArtifactID()
	issued := &models.IssuedUpload{
		ObjectKey: inputKey(account, id), AccountID: account, ArtifactID: id, Type: models.ArtifactInput,
		ContentType: contentType, SizeBytes: size, Checksum: checksum,
	}
	return issued, apierror.Wrap(models.InsertUpload(ctx, i.DB, issued), "issue the key of an input")
}

func upload(issued *models.IssuedUpload) Upload {
	return Upload{Key: issued.ObjectKey, ContentType: issued.ContentType, SizeBytes: issued.SizeBytes, Checksum: issued.Checksum}
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
func (i *Inputs) keep(ctx context.Context, id models.ArtifactID, info picture.Info) (*models.Artifact, error) {
	metadata, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	a := &models.Artifact{ID: id, Metadata: metadata}
	if err = models.InsertInput(ctx, i.DB, a); errors.Is(err, sql.ErrNoRows) {
		found, err := models.GetArtifacts(ctx, i.DB, []models.ArtifactID{id})
		if err == nil && len(found) == 0 {
			return nil, errNoInput
		}
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	return a, apierror.Wrap(err, "keep input %s", id)
}

// errNoInput is the answer for an image that does not exist for this account.
var errNoInput = apierror.NotFound("image (" + ReferenceField + ")").In(ReferenceField)

// reference is how a job's params name the image that it starts from: an artifact's id or a
// URL. It is empty if there is no image.
type reference string

func readReference(params json.RawMessage) reference {
	if !bytes.Contains(params, []byte(`"`+referenceParam+`"`)) {
		return ""
	}
	var p struct {
		ReferenceImage string `json:"referenceImage"`
	}
	// The schema was checked before, so what does not decode is absent.
	_ = json.Unmarshal(params, &p)
	return reference(p.ReferenceImage)
}

// artifact returns the reference as an artifact's id. ok is false for a URL.
func (r reference) artifact() (id models.ArtifactID, ok bool) {
	return models.ArtifactID(r), strings.HasPrefix(string(r), "art_")
}

// remote reports whether it is a URL.
func (r reference) remote() bool {
	_, ok := r.artifact()
	return r != "" && !ok
}

// check verifies that the image that params name can be used. An uploaded image is verified
// and decoded, once; of a URL only the text is checked.
func (i *Inputs) check(ctx context.Context, account models.AccountID, params json.RawMessage) error {
	ref := readReference(params)
	if ref == "" {
		return nil
	}
	id, ok := ref.artifact()
	if !ok {
		if err := i.Remote.Check(string(ref)); err != nil {
			return apierror.Invalid(ReferenceField, "%s is neither the id of an uploaded image (art_…) nor a URL to fetch one from: %s", ReferenceField, err)
		}
		return nil
	}
	if !id.Valid() {
		return errNoInput
	}
	_, err := models.FindInput(ctx, i.DB, account, id)
	if !errors.Is(err, sql.ErrNoRows) {
		return apierror.Wrap(err, "read input %s", id)
	}
	issued, err := models.FindInputUpload(ctx, i.DB, account, id)
	if errors.Is(err, sql.ErrNoRows) {
		return errNoInput
	}
	if err != nil {
		return fmt.Errorf("read the key of input %s: %w", id, err)
	}
	info, err := i.verify(ctx, issued)
	if err != nil {
		return err
	}
	_, err = i.keep(ctx, id, info)
	return err
}

// verify compares an uploaded image with what was announced, and checks that it is an image.
func (i *Inputs) verify(ctx context.Context, issued *models.IssuedUpload) (picture.Info, error) {
	stored, err := i.Objects.Stat(ctx, issued.ObjectKey)
	if errors.Is(err, ErrNoObject) {
		return picture.Info{}, apierror.Invalid(ReferenceField, "This image was not uploaded yet: send its bytes to the link that requestInputUpload returned.")
	}
	if err != nil {
		return picture.Info{}, StoreAway(ctx, err)
	}
	if stored.SizeBytes != issued.SizeBytes || stored.Checksum != issued.Checksum {
		return picture.Info{}, mismatch("The store holds %d bytes with checksum %s, not the image that was announced.", stored.SizeBytes, stored.Checksum)
	}
	data, err := i.read(ctx, issued)
	if err != nil {
		return picture.Info{}, StoreAway(ctx, err)
	}
	info, err := picture.Check(ctx, data)
	if fault := picture.Fault(""); errors.As(err, &fault) {
		return info, apierror.Invalid(ReferenceField, "The uploaded image cannot be used: %s.", fault)
	}
	if err == nil && info.ContentType != issued.ContentType {
		err = apierror.Invalid(ReferenceField, "The image was announced as %s, but it is %s.", issued.ContentType, info.ContentType)
	}
	return info, err
}

func (i *Inputs) read(ctx context.Context, issued *models.IssuedUpload) ([]byte, error) {
	object, err := i.Objects.Open(ctx, issued.ObjectKey, issued.SizeBytes)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	data, err := io.ReadAll(io.LimitReader(object, issued.SizeBytes))
	if err == nil && crc32c(data) != issued.Checksum {
		err = fmt.Errorf("object %s: the bytes read are not those stored", issued.ObjectKey)
	}
	return data, err
}

// useInput records that a job is about to start from the image that its params name. It
// reports whether the image must still be fetched. It returns errNoInput if the image no
// longer exists.
func useInput(ctx context.Context, tx bun.Tx, job *models.Job) (fetch bool, err error) {
	ref := readReference(job.Params)
	if ref == "" {
		return false, nil
	}
	if id, ok := ref.artifact(); ok {
		err := models.UseInput(ctx, tx, models.InputUse{JobID: job.ID, AccountID: job.AccountID, ArtifactID: id, Reference: string(ref)})
		if errors.Is(err, sql.ErrNoRows) {
			return false, errNoInput
		}
		return false, apierror.Wrap(err, "use input %s", id)
	}
	known, err := models.FindInputOf(ctx, tx, job.ID, string(ref))
	if err == nil { // an earlier run fetched it
		err = models.UseInput(ctx, tx, models.InputUse{JobID: job.ID, AccountID: job.AccountID, ArtifactID: known.ID, Reference: string(ref)})
	}
	if errors.Is(err, sql.ErrNoRows) {
		return true, apierror.Wrap(models.InsertInputFetches(ctx, tx, job), "have the image fetched")
	}
	return false, apierror.Wrap(err, "read the image of job %s", job.ID)
}

// inputOf returns the image that a job starts from, or nil if there is none.
func inputOf(ctx context.Context, db bun.IDB, job *models.Job) ([]*models.Artifact, error) {
	ref := readReference(job.Params)
	if ref == "" {
		return nil, nil
	}
	a, err := models.FindInputOf(ctx, db, job.ID, string(ref))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the image of job %s: %w", job.ID, err)
	}
	return []*models.Artifact{a}, nil
}

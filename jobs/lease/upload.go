package lease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/strictjson"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// maxUploads bounds the keys of one attempt. Five hours with a checkpoint every ten seconds take
// 1,800 keys, and with a preview every three seconds 6,000.
const maxUploads = 8000

// maxArtifactMetadata bounds an artifact's metadata, in bytes.
const maxArtifactMetadata = 16 << 10

// uploadRule says what may be uploaded as one type of artifact.
type uploadRule struct {
	contentTypes []string // prefixes
	maxBytes     int64
	name         string
}

var uploadRules = map[models.ArtifactType]uploadRule{
	models.ArtifactCheckpoint:  {[]string{"application/"}, 64 << 30, "checkpoint"},
	models.ArtifactPreview:     {[]string{"image/", "video/"}, 32 << 20, "preview"},
	models.ArtifactFinalVideo:  {[]string{"video/"}, 64 << 30, "video"},
	models.ArtifactThumbnail:   {[]string{"image/"}, 32 << 20, "thumbnail"},
	models.ArtifactSpritesheet: {[]string{"image/"}, 256 << 20, "spritesheet"},
	models.ArtifactLog:         {[]string{"text/plain"}, 64 << 10, "log"},
	models.ArtifactEvidence:    {[]string{"image/"}, 8 << 20, "frame"},
}

// UploadRequest announces one object.
type UploadRequest struct {
	Type        models.ArtifactType
	ContentType string
	SizeBytes   int64
	Checksum    string
}

// RequestUpload issues a key to the attempt, for exactly the announced type, size and
// checksum, and a link to upload to it once. A request for the final video makes the job
// COMPLETING.
func (h *Attempts) RequestUpload(ctx context.Context, p jobs.Principal, f Fence, r UploadRequest) (key string, link jobs.UploadLink, err error) {
	if err := r.valid(); err != nil {
		return "", jobs.UploadLink{}, err
	}
	var issued string // not key: if ctx ends, act may run while this returns
	_, err = h.fenced(ctx, &fencedCall{p: p, fence: f, act: func(ctx context.Context, l *lockedLease) error {
		if l.attempt.Uploads >= maxUploads {
			return apierror.Conflict("This attempt has requested %d uploads, which is the limit.", maxUploads)
		}
		l.attempt.Uploads++
		issued = objectKey(l.attempt, r.Type)
		l.issued = append(l.issued, &models.IssuedUpload{
			ObjectKey: issued, JobID: l.job.ID, AttemptID: l.attempt.ID, Type: r.Type,
			ContentType: r.ContentType, SizeBytes: r.SizeBytes, Checksum: r.Checksum,
		})
		if r.Type == models.ArtifactFinalVideo {
			return l.change.Completing()
		}
		return nil
	}})
	if err != nil {
		return "", jobs.UploadLink{}, apierror.Wrap(err, "upload of attempt %s", f.AttemptID)
	}
	link, err = h.Objects.LinkUpload(ctx, jobs.Upload{Key: issued, ContentType: r.ContentType, SizeBytes: r.SizeBytes, Checksum: r.Checksum}, jobs.UploadTTL)
	if err != nil {
		return "", jobs.UploadLink{}, jobs.StoreAway(ctx, err)
	}
	return issued, link, nil
}

func (r UploadRequest) valid() error {
	rule, ok := uploadRules[r.Type]
	if !ok {
		return apierror.Invalid("type", "A worker uploads no %s.", r.Type)
	}
	if r.SizeBytes < 1 || r.SizeBytes > rule.maxBytes {
		return apierror.Invalid("sizeBytes", "A %s may have 1 to %d bytes.", rule.name, rule.maxBytes)
	}
	if err := jobs.ValidChecksum(r.Checksum); err != nil {
		return err
	}
	media, _, err := mime.ParseMediaType(r.ContentType)
	if err == nil && runs(media) {
		return apierror.Invalid("contentType", "A %s may not be %s: a browser could run what is in it.", rule.name, text.Clip(media, 100))
	}
	if err != nil || len(r.ContentType) > 100 || !slices.ContainsFunc(rule.contentTypes, func(t string) bool { return strings.HasPrefix(media, t) }) {
		return apierror.Invalid("contentType", "The content type of a %s begins with %s.", rule.name, strings.Join(rule.contentTypes, " or "))
	}
	return nil
}

// runs reports whether a browser runs programs in files of a media type: SVG and other XML, scripts
// and documents.
func runs(media string) bool {
	_, subtype, _ := strings.Cut(media, "/")
	return strings.HasSuffix(subtype, "xml") || strings.HasPrefix(subtype, "svg") || strings.Contains(subtype, "script") ||
		strings.Contains(subtype, "html") || subtype == "pdf" || subtype == "x-shockwave-flash"
}

// Reelay's folders in the bucket, which may also contain other data. inputsFolder is the third.
const (
	ArtifactsFolder   = "artifacts/"
	CheckpointsFolder = "checkpoints/"
)

// objectKey makes a new key. Checkpoints are spread over prefixes, because a reclaimed fleet writes
// all of them at once.
func objectKey(a *models.Attempt, t models.ArtifactType) string {
	spread := sha256.Sum256([]byte(a.JobID))
	folder := ArtifactsFolder
	if t == models.ArtifactCheckpoint {
		folder = CheckpointsFolder
	}
	return fmt.Sprintf("%s%s/%s/%s/%s-%s", folder, hex.EncodeToString(spread[:1]), a.JobID, a.ID,
		strings.ToLower(string(t)), uuid.Must(uuid.NewV7()))
}

// verify compares an uploaded object with what was issued to the attempt and with what the store
// has. The caller checks that the attempt is the worker's. verify returns INVALID_INPUT for a key
// that was not issued to the attempt for that type, and CHECKSUM_MISMATCH.
func (h *Attempts) verify(ctx context.Context, f Fence, t models.ArtifactType, o *jobs.UploadedObject) (*models.Artifact, error) {
	what := uploadRules[t].name
	if len(o.ObjectKey) > 1024 || strings.ContainsRune(o.ObjectKey, 0) || !utf8.ValidString(o.ObjectKey) {
		return nil, apierror.Invalid("objectKey", "This key was not issued to this attempt for a %s: use the one that requestUpload returned.", what)
	}
	metadata, err := strictjson.ReadStored("metadata", o.Metadata, maxArtifactMetadata)
	if err != nil {
		return nil, err
	}
	issued, err := h.issued(ctx, o.ObjectKey)
	if err != nil {
		return nil, err
	}
	if issued == nil || issued.AttemptID != f.AttemptID || issued.Type != t {
		return nil, apierror.Invalid("objectKey", "This key was not issued to this attempt for a %s: use the one that requestUpload returned.", what)
	}
	if issued.SizeBytes != o.SizeBytes || issued.Checksum != o.Checksum {
		return nil, jobs.Mismatch("The %s was announced with %d bytes and checksum %s, not with those given now.", what, issued.SizeBytes, issued.Checksum)
	}
	if issued.ContentType != o.ContentType {
		return nil, apierror.Invalid("contentType", "The %s was announced as %s.", what, issued.ContentType)
	}
	stored, err := h.Objects.Stat(ctx, o.ObjectKey)
	if errors.Is(err, jobs.ErrNoObject) {
		return nil, jobs.Mismatch("The store holds no such object: upload the %s first.", what)
	}
	if err != nil {
		return nil, jobs.StoreAway(ctx, err)
	}
	if stored.SizeBytes != issued.SizeBytes || stored.Checksum != issued.Checksum {
		return nil, jobs.Mismatch("The store holds %d bytes with checksum %s, not the %s that was announced.", stored.SizeBytes, stored.Checksum, what)
	}
	return &models.Artifact{
		ID: models.NewArtifactID(), JobID: issued.JobID, AttemptID: f.AttemptID, Type: t, ObjectKey: o.ObjectKey,
		SizeBytes: stored.SizeBytes, Checksum: stored.Checksum, ContentType: issued.ContentType, Metadata: metadata,
	}, nil
}

// issue is a key to look up, and what was issued under it, or nil.
type issue struct {
	key   string
	found *models.IssuedUpload
}

// issued looks up a key, batched with concurrent lookups.
func (h *Attempts) issued(ctx context.Context, key string) (*models.IssuedUpload, error) {
	own := &issue{key: key}
	err := h.keys.Do(ctx, own, func(ctx context.Context, all []*issue) error {
		keys := make([]string, len(all))
		for i, one := range all {
			keys[i] = one.key
		}
		found, err := models.FindUploads(ctx, h.DB, keys)
		if err != nil {
			return jobs.BatchError(err)
		}
		of := lo.KeyBy(found, func(u *models.IssuedUpload) string { return u.ObjectKey })
		for _, one := range all {
			one.found = of[one.key]
		}
		return nil
	})
	if err != nil {
		return nil, err // and own may still be written
	}
	return own.found, nil
}

// lostOr returns ErrLeaseLost or NOT_FOUND if the caller has no live lease, and refused otherwise.
func (h *Attempts) lostOr(ctx context.Context, p jobs.Principal, f Fence, refused error) error {
	if _, lost := f.live(ctx, h.DB, p); lost != nil {
		return lost
	}
	return refused
}

// keep adds a verified artifact to those to be saved, or returns the one that was saved before. It
// returns CHECKSUM_MISMATCH if that one has been deleted.
func (l *lockedLease) keep(a *models.Artifact) (*models.Artifact, error) {
	if i := slices.IndexFunc(l.kept, func(k *models.Artifact) bool { return k.ObjectKey == a.ObjectKey }); i >= 0 {
		return l.kept[i], nil
	}
	known := l.objects[a.ObjectKey]
	if known.Artifact != nil {
		return known.Artifact, nil
	}
	if !known.Issued {
		return nil, jobs.Mismatch("This %s was deleted because nothing uses it any more.", uploadRules[a.Type].name)
	}
	a.AccountID, a.CreatedAt = l.job.AccountID, l.change.Now
	l.kept = append(l.kept, a)
	return a, nil
}

package comfyapi

import (
	"context"
	"encoding/hex"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
)

const (
	hashPrefix = "blake3:"
	// maxFields and maxField bound what comes before the file of an upload.
	maxFields = 8
	maxField  = 4 << 10
)

// assetView is an input, or the output of a job.
type assetView struct {
	ID           string     `json:"id"`
	Hash         *string    `json:"hash"`
	SizeBytes    int64      `json:"size_bytes"`
	ContentType  string     `json:"content_type"`
	FilePath     *string    `json:"file_path"`
	CreatedNew   *bool      `json:"created_new,omitzero"`
	CreatedAt    time.Time  `json:"created_at"`
	URL          string     `json:"url"`
	URLExpiresAt time.Time  `json:"url_expires_at"`
	ExpiresAt    *time.Time `json:"expires_at"`
	JobID        *string    `json:"job_id"`
}

func (a *api) assetView(c *call, file *models.Artifact) (*assetView, error) {
	link, until, err := a.link(c.Context(), c, file)
	if err != nil {
		return nil, err
	}
	v := &assetView{
		ID: string(file.ID), SizeBytes: file.SizeBytes, ContentType: file.ContentType, CreatedAt: file.CreatedAt.UTC(),
		URL: link, URLExpiresAt: until, ExpiresAt: timeOf(file.ExpiresAt),
	}
	if file.Blake3 != nil {
		v.Hash = new(hashPrefix + hex.EncodeToString(file.Blake3))
	}
	if file.JobID != "" {
		v.JobID = new(string(file.JobID))
	}
	return v, nil
}

// file returns an input of the caller's account, or an output of one of its jobs, or NOT_FOUND.
func (a *api) file(ctx context.Context, c *call, id string) (*models.Artifact, error) {
	input, err := a.Inputs.Find(ctx, c.caller, models.ArtifactID(id))
	if !apierror.HasCode(err, apierror.CodeNotFound) {
		return input, err
	}
	made, err := a.Reads.Jobs.Artifact(ctx, c.caller, models.ArtifactID(id))
	if err != nil {
		return nil, err
	}
	isOutput := made.Type == models.ArtifactFinalVideo || made.Type == models.ArtifactThumbnail
	if made.AccountID != c.caller.AccountID || !isOutput {
		return nil, apierror.NotFound("asset")
	}
	return made, nil
}

func (a *api) asset(_ http.ResponseWriter, c *call, id string) (*answer, error) {
	file, err := a.file(c.Context(), c, id)
	if err != nil {
		return nil, err
	}
	view, err := a.assetView(c, file)
	return ok(view), err
}

// content redirects to the bytes of an asset, with a link that needs no key.
func (a *api) content(w http.ResponseWriter, c *call, id string) (*answer, error) {
	file, err := a.file(c.Context(), c, id)
	if err != nil {
		return nil, err
	}
	link, _, err := a.link(c.Context(), c, file)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", link)
	return &answer{status: http.StatusFound}, nil
}

// drop deletes an asset that no job uses.
func (a *api) drop(_ http.ResponseWriter, c *call, id string) (*answer, error) {
	err := a.Inputs.Drop(c.Context(), c.caller, models.ArtifactID(id))
	switch {
	case apierror.HasCode(err, apierror.CodeConflict):
		return nil, faultf(http.StatusConflict, "asset_in_use", "%s", err)
	case apierror.HasCode(err, apierror.CodeNotFound):
		if made, err := a.file(c.Context(), c, id); err == nil {
			return nil, faultf(http.StatusConflict, "asset_in_use",
				"This asset is the output of the job %s: it is deleted with the job, or some time after its end.", made.JobID)
		}
	}
	return &answer{status: http.StatusNoContent}, err
}

// byHash finds an asset by its hash.
func (a *api) byHash(_ http.ResponseWriter, c *call, hash string) (*answer, error) {
	found, err := a.findHash(c, hash)
	if err != nil {
		return nil, err
	}
	view, err := a.assetView(c, found)
	return ok(view), err
}

// fromHash is byHash for a body. The asset keeps the id that it has.
func (a *api) fromHash(w http.ResponseWriter, c *call) (*answer, error) {
	var in struct {
		Hash      string `json:"hash"`
		FilePath  string `json:"file_path"`
		Tags      any    `json:"tags"`
		ExpiresIn any    `json:"expires_in"`
	}
	if err := a.read(w, c, &in); err != nil {
		return nil, err
	}
	if in.Tags != nil || in.ExpiresIn != nil {
		return nil, errAssetSettings
	}
	found, err := a.findHash(c, in.Hash)
	if err != nil {
		return nil, err
	}
	view, err := a.assetView(c, found)
	if err != nil {
		return nil, err
	}
	view.FilePath, view.CreatedNew = &in.FilePath, new(false)
	return ok(view), nil
}

var errAssetSettings = faultf(http.StatusUnprocessableEntity, "not_supported",
	"This server keeps no tags of assets, and decides itself how long it keeps them: leave out tags and expires_in.")

func (a *api) findHash(c *call, hash string) (*models.Artifact, error) {
	sum, err := readHash("hash", hash)
	if err != nil {
		return nil, err
	}
	found, err := a.Inputs.FindHash(c.Context(), c.caller, sum)
	if apierror.HasCode(err, apierror.CodeNotFound) {
		return nil, faultf(http.StatusNotFound, "blob_not_found", "No file with this hash is here: upload it.")
	}
	return found, err
}

func readHash(field, hash string) ([]byte, error) {
	digits, ok := strings.CutPrefix(hash, hashPrefix)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != 32 {
		return nil, faultf(http.StatusUnprocessableEntity, "invalid_request", "%s is %q: it must be blake3: and 64 hexadecimal digits.", field,
			door.Clip(hash))
	}
	return sum, nil
}

// upload stores a file. The fields of the form come before the file.
func (a *api) upload(w http.ResponseWriter, c *call) (*answer, error) {
	mediaType, options, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" || options["boundary"] == "" {
		return nil, door.UnsupportedMedia("Unsupported content type: send multipart/form-data.")
	}
	if err := a.room(c); err != nil {
		return nil, err
	}
	parts := multipart.NewReader(http.MaxBytesReader(w, c.Body, inputs.MaxPutBytes+maxFields*2*maxField), options["boundary"])
	fields := map[string]string{}
	for {
		part, err := parts.NextPart()
		switch {
		case err == io.EOF:
			return nil, faultf(http.StatusUnprocessableEntity, "invalid_request", "The form has no field file: send the file in it, last.")
		case err != nil:
			return nil, door.Unread(err)
		case part.FormName() == "file":
			return a.store(c, fields, part)
		}
		value, err := io.ReadAll(io.LimitReader(part, maxField+1))
		name := part.FormName()
		switch _, twice := fields[name]; {
		case err != nil:
			return nil, door.Unread(err)
		case twice:
			return nil, door.Duplicate("The form", "field", name)
		case name == "tags" || name == "expires_in":
			return nil, errAssetSettings
		case name != "content_type" && name != "file_path" && name != "expected_hash" || len(value) > maxField || len(fields) == maxFields:
			return nil, faultf(http.StatusUnprocessableEntity, "invalid_request",
				"The form has the field %s, or it is too long: an upload has content_type, file_path, expected_hash and, last, file.", door.Clip(name))
		}
		fields[name] = string(value)
	}
}

func (a *api) store(c *call, fields map[string]string, file io.Reader) (*answer, error) {
	var hash []byte
	if expected, given := fields["expected_hash"]; given {
		var err error
		if hash, err = readHash("expected_hash", expected); err != nil {
			return nil, err
		}
	}
	stored, err := a.Inputs.PutFile(c.Context(), c.caller, fields["content_type"], file, hash)
	if err != nil {
		return nil, err
	}
	view, err := a.assetView(c, stored)
	if err != nil {
		return nil, err
	}
	view.FilePath, view.CreatedNew = new(fields["file_path"]), new(true)
	return &answer{http.StatusCreated, view}, nil
}

package videos

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/media"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/web/door"
)

// reference is the image with which a video begins: a file, or the id or the URL of
// one; nil for none.
type reference struct {
	file *file
	at   string
}

const referenceParam = "input_reference"

// imageTypes are the media types of image files.
var imageTypes = []string{"image/jpeg", "image/png", "image/webp"}

// readReference reads input_reference: a file, or an object with one of file_id
// and image_url.
func readReference(f fields) (*reference, error) {
	switch value := f[referenceParam].(type) {
	case nil:
		return nil, nil
	case *file:
		return imageFile(value)
	case fields:
		return namedImage(value)
	default:
		return nil, errType(referenceParam, "a file", value)
	}
}

func namedImage(f fields) (*reference, error) {
	if err := f.only(referenceParam+".", "file_id", "image_url"); err != nil {
		return nil, err
	}
	id, err := f.text("file_id")
	if err != nil {
		return nil, err
	}
	link, err := f.text("image_url")
	if err != nil {
		return nil, err
	}
	switch {
	case (id == "") == (link == ""):
		return nil, invalid("invalid_value", referenceParam, "Provide exactly one of 'input_reference.file_id' and 'input_reference.image_url'.")
	case id != "":
		return &reference{at: id}, nil
	case strings.HasPrefix(link, "data:"):
		return dataImage(link)
	}
	return &reference{at: link}, nil
}

// dataImage reads data:image/png;base64,…
func dataImage(link string) (*reference, error) {
	head, encoded, _ := strings.Cut(strings.TrimPrefix(link, "data:"), ",")
	contentType, encoding, _ := strings.Cut(head, ";")
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || encoding != "base64" {
		return nil, invalid("invalid_value", referenceParam,
			"The data URL is malformed: it must be data:image/png;base64, and the image in base64.")
	}
	return imageFile(&file{contentType: contentType, data: data})
}

// imageFile checks an image file. If its media type is missing or generic, it is
// detected.
func imageFile(f *file) (*reference, error) {
	contentType, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(f.contentType)), ";")
	if contentType == "" || contentType == "application/octet-stream" {
		contentType = http.DetectContentType(f.data)
	}
	advice := cmp.Or(media.Detect(f.data).Advice(), media.AdviceOn(contentType))
	switch {
	case advice != "":
		return nil, invalid("unsupported_file", referenceParam, "The image cannot be used: it is %s.", advice)
	case !slices.Contains(imageTypes, contentType):
		return nil, invalid("unsupported_file", referenceParam, "Unsupported file type '%s': an input reference must be %s.",
			door.Clip(contentType), strings.Join(imageTypes, ", "))
	case len(f.data) == 0:
		return nil, invalid("invalid_value", referenceParam, "The file is empty.")
	case len(f.data) > maxFile:
		return nil, invalid("invalid_value", referenceParam, "The file is larger than %d MiB.", maxFile>>20)
	}
	return &reference{file: &file{contentType, f.data}}, nil
}

// identity is the same for the same reference in a repeated request.
func (r *reference) identity() []string {
	switch {
	case r == nil:
		return nil
	case r.file != nil:
		sum := sha256.Sum256(r.file.data)
		return []string{r.file.contentType, hex.EncodeToString(sum[:])}
	}
	return []string{r.at}
}

// put stores the file, if the reference is one, and returns the value of the model's
// parameter.
func (a *api) put(ctx context.Context, caller jobs.Principal, model *catalogue.Model, r *reference) (string, error) {
	if a.Inputs == nil || !takesReference(model) {
		return "", invalid("not_supported", referenceParam, "The model %s does not take an input reference here.", model.Name)
	}
	if r.file == nil {
		return r.at, nil
	}
	stored, err := a.Inputs.Put(ctx, caller, r.file.contentType, bytes.NewReader(r.file.data))
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput {
		return "", invalid("invalid_value", referenceParam, "%s", refused.Message)
	}
	if err != nil {
		return "", err
	}
	return string(stored.ID), nil
}

// takesReference reports whether the model has a parameter for the image.
func takesReference(model *catalogue.Model) bool {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	return json.Unmarshal(model.Schema, &schema) == nil && schema.Properties["referenceImage"] != nil
}

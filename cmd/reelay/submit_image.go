package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/picture"
)

// referenceImage is the parameter that names the image a film begins from.
const referenceImage = "referenceImage"

func isURL(image string) bool {
	return strings.HasPrefix(image, "https://") || strings.HasPrefix(image, "http://")
}

// refer puts --image into the parameters: a URL as it stands; a file's name is
// kept for until it is uploaded.
func (o *submitOptions) refer(params fields) error {
	if o.image == "" {
		return nil
	}
	if params[referenceImage] != nil {
		return errors.New("an image is given twice: by --image and as the parameter referenceImage")
	}
	if isURL(o.image) {
		return params.set(referenceImage, o.image)
	}
	return nil
}

// upload stores the file that --image names, has the job begin from it, and
// returns its id; it does nothing without one.
func (o *submitOptions) upload(ctx context.Context, c *client.Client, in *client.SubmitJobInput) (id string, err error) {
	if o.image == "" || isURL(o.image) {
		return "", nil
	}
	file, err := os.Open(o.image)
	if err != nil {
		return "", err
	}
	defer file.Close()
	kind, err := imageType(file)
	if err != nil {
		return "", fmt.Errorf("%s cannot be used: %w", o.image, err)
	}
	if id, err = c.UploadInput(ctx, kind, file); err != nil {
		return "", fmt.Errorf("upload %s: %w", o.image, apiError(err))
	}
	params := fields{}
	if in.Params != nil {
		_ = json.Unmarshal(*in.Params, &params) // it was made of fields
	}
	if err := params.set(referenceImage, id); err != nil {
		return "", err
	}
	in.Params = params.message()
	return id, nil
}

// imageType looks into a file, and refuses what no model would take.
func imageType(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() > picture.MaxBytes {
		return "", fmt.Errorf("it has more than %d MB", picture.MaxBytes>>20)
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch kind := http.DetectContentType(head[:n]); kind {
	case "image/jpeg", "image/png", "image/webp":
		return kind, nil
	}
	return "", errors.New("it is no JPEG, PNG or WebP")
}

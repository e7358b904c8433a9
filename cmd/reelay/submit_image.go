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

// referenceImage is the parameter for the image that a video starts from.
const referenceImage = "referenceImage"

func isURL(image string) bool {
	return strings.HasPrefix(image, "https://") || strings.HasPrefix(image, "http://")
}

// refer adds --image to the parameters: a URL as it is, a file's name as a placeholder
// until the file is uploaded.
func (o *submitOptions) refer(params fields) error {
	if o.image == "" {
		return nil
	}
	if params[referenceImage] != nil {
		return errors.New("the image is given twice, by --image and as the parameter referenceImage: use one of them")
	}
	if isURL(o.image) {
		return params.set(referenceImage, o.image)
	}
	return nil
}

// upload uploads the file of --image, sets it as the job's image and returns its id.
// Without a file it does nothing.
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

// imageType returns the media type of an image file, or an error if no model would
// accept it.
func imageType(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() > picture.MaxBytes {
		return "", fmt.Errorf("it is larger than %d MB", picture.MaxBytes>>20)
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
	return "", errors.New("it is not a JPEG, PNG or WebP image")
}

package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/models"
)

const inputsPath = "/api/v1/inputs"

// inputRequest announces a file that jobs will start from.
type inputRequest struct {
	ContentType string `json:"content_type" doc:"Of an image: image/jpeg, image/png or image/webp. Of a video: video/mp4 or video/webm. Of a sound: audio/mpeg, audio/mp4, audio/wav, audio/x-wav, audio/flac or audio/ogg."`
	SizeBytes   int64  `json:"size_bytes" doc:"The exact size: up to 20 MB for an image, up to 500 MB for a video or sound."`
	Checksum    string `json:"checksum" doc:"The CRC32C (Castagnoli) of the bytes, big-endian, in base64." example:"AAAAAA=="`
}

// inputUpload says where to send the file.
type inputUpload struct {
	ArtifactID models.ArtifactID `json:"artifact_id" doc:"Id to use for this file in job parameters."`
	Method     string            `json:"method" doc:"Send the bytes to url with this method and exactly these headers, once."`
	URL        string            `json:"url" format:"uri"`
	Headers    map[string]string `json:"headers"`
	ExpiresAt  time.Time         `json:"expires_at" doc:"When the link expires."`
}

type inputOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         inputUpload
}

func (s *service) registerInputs(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "createInput", Method: http.MethodPost, Path: inputsPath, DefaultStatus: http.StatusCreated,
		Summary:     "Request a link to upload a file that jobs start from",
		Description: "Then name the artifact in the payload of a job. A file that no job uses within a day is deleted: see docs/users/inputs.md.",
		Errors:      []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests},
		RequestBody: example("A video", map[string]any{"content_type": "video/mp4", "size_bytes": 1048576, "checksum": "AAAAAA=="}),
	}, s.createInput)
}

func (s *service) createInput(ctx context.Context, in *struct{ Body inputRequest }) (*inputOutput, error) {
	issued, err := s.Inputs.Request(ctx, callerOf(ctx).Principal, in.Body.ContentType, in.Body.SizeBytes, in.Body.Checksum)
	if err != nil {
		return nil, renamed(err, map[string]string{"contentType": "content_type", "sizeBytes": "size_bytes"})
	}
	link := issued.Link
	return &inputOutput{CacheControl: "no-store", Body: inputUpload{
		issued.ArtifactID, link.Method, link.Link.At(callerOf(ctx).base), link.Headers, link.ExpiresAt.UTC(),
	}}, nil
}

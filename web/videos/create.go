package videos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// create makes a video of a prompt.
func (a *api) create(w http.ResponseWriter, c *call) (any, error) {
	f, err := a.readFields(w, c)
	if err != nil {
		return nil, err
	}
	if f["characters"] != nil {
		return nil, invalid("not_supported", "characters", "This server does not offer characters.")
	}
	if err := f.only("", "prompt", "model", "seconds", "size", referenceParam); err != nil {
		return nil, err
	}
	prompt, err := readPrompt(f)
	if err != nil {
		return nil, err
	}
	s, err := a.readSettings(f)
	if err != nil {
		return nil, err
	}
	image, err := readReference(f)
	if err != nil {
		return nil, err
	}
	return a.submit(w, c, order{
		prompt: prompt, settings: s, image: image,
		identity: []any{"create", prompt, s.Model, s.Seconds, s.Size, image.identity()},
	})
}

// remix makes a video of another prompt and a completed one's settings.
func (a *api) remix(w http.ResponseWriter, c *call, id models.JobID) (any, error) {
	f, err := a.readFields(w, c)
	if err != nil {
		return nil, err
	}
	if err := f.only("", "prompt"); err != nil {
		return nil, err
	}
	prompt, err := readPrompt(f)
	if err != nil {
		return nil, err
	}
	source, err := a.Videos.Get(c.Context(), c.caller, id)
	if err != nil {
		return nil, err
	}
	if source.Status != models.JobCompleted {
		return nil, invalid("invalid_state", "video_id", "Only a completed video can be remixed; this one is %s.", status(source.Job))
	}
	shown := a.view(source)
	s := &settings{Model: shown.Model, Seconds: shown.Seconds, Size: shown.Size, params: map[string]any{}}
	if s.model, err = a.Videos.Submitter.Catalogue.Model(source.Model); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(source.Params, &s.params); err != nil {
		return nil, fmt.Errorf("read the params of %s: %w", id, err)
	}
	answer, err := a.submit(w, c, order{prompt: prompt, settings: s, remixOf: id, identity: []any{"remix", id, prompt}})
	var gone *apierror.Error
	if errors.As(err, &gone) && gone.Code == apierror.CodeNotFound && s.params["referenceImage"] != nil {
		return nil, invalid("invalid_state", "video_id", "The image that this video begins with is there no more, so it cannot be remixed: create a video with the image anew.")
	}
	return answer, err
}

func readPrompt(f fields) (string, error) {
	prompt, err := f.text("prompt")
	if err == nil && prompt == "" {
		err = invalid("missing_required_parameter", "prompt", "Missing required parameter: 'prompt'.")
	}
	return prompt, err
}

func (a *api) readSettings(f fields) (*settings, error) {
	name, err := f.text("model")
	if err != nil {
		return nil, err
	}
	seconds, err := f.digits("seconds")
	if err != nil {
		return nil, err
	}
	size, err := f.text("size")
	if err != nil {
		return nil, err
	}
	return a.settle(name, seconds, size)
}

// order is a video to be made.
type order struct {
	prompt string
	*settings
	image   *reference
	remixOf models.JobID
	// identity is what was asked for: a repeated request has the same.
	identity []any
}

// submit makes a job of an order, or finds the one that an equal request made.
func (a *api) submit(w http.ResponseWriter, c *call, o order) (any, error) {
	key, err := idempotencyKey(c.Header)
	if err != nil {
		return nil, err
	}
	request := jobs.VideoRequest{
		Model: o.Model, Size: o.Size, Seconds: o.Seconds, RemixOf: o.remixOf,
		Digest: digest(c.secret, o.identity), Retry: retryCount(c.Header),
	}
	// What was made before needs no image stored anew, and no limit refuses it.
	if o.image != nil || request.Retry > 0 {
		if found, err := a.Videos.Submitter.RepeatedVideo(c.Context(), c.caller, key, request); err != nil || found != nil {
			return a.found(w, c, found, err)
		}
	}
	if o.image != nil {
		if o.params["referenceImage"], err = a.put(c.Context(), c.caller, o.model, o.image); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(o.params)
	if err != nil {
		return nil, fmt.Errorf("encode params: %w", err)
	}
	request.Age = time.Since(c.came)
	v, _, err := a.Videos.Create(c.Context(), c.caller, jobs.Submission{
		Model: o.model.Name, Prompt: o.prompt, Params: raw, IdempotencyKey: key,
	}, request)
	if err != nil {
		return nil, err
	}
	return a.show(w, v), nil
}

func (a *api) found(w http.ResponseWriter, c *call, job *models.Job, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return a.retrieve(w, c, job.ID)
}

// digest names a request of the holder of a secret. It is of no use to who does
// not have the secret, which is kept nowhere: a prompt cannot be guessed by it.
func digest(secret string, identity []any) []byte {
	canonical, err := json.Marshal(identity)
	if err != nil { // texts and lists of texts
		panic(err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(canonical)
	return mac.Sum(nil)
}

// maxRetries is the highest count that is told from a higher one.
const maxRetries = 100

// retryCount is which retry of his the sender says that this is: the official
// packages count, and send the same fields, under another boundary, when an
// answer was lost on its way.
func retryCount(h http.Header) int {
	n, err := strconv.Atoi(h.Get("X-Stainless-Retry-Count"))
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxRetries)
}

// idempotencyKey is what a client may send to be sure for as long as the video is
// there: nil if it does not.
func idempotencyKey(h http.Header) (*string, error) {
	switch keys := h.Values("Idempotency-Key"); len(keys) {
	case 0:
		return nil, nil
	case 1:
		return &keys[0], nil
	}
	return nil, invalid("invalid_value", "Idempotency-Key", "The header Idempotency-Key is there more than once.")
}

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

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
)

// create submits a video.
func (a *api) create(w http.ResponseWriter, c *call) (any, error) {
	f, err := a.readFields(w, c)
	if err != nil {
		return nil, err
	}
	if f["characters"] != nil {
		return nil, invalid("not_supported", "characters", "This server does not offer characters.")
	}
	if err := f.only("", "prompt", "model", "seconds", "size", referenceParam, paramsParam, reuseParam); err != nil {
		return nil, err
	}
	prompt, err := readPrompt(f)
	if err != nil {
		return nil, err
	}
	extra, err := f.readExtras()
	if err != nil {
		return nil, err
	}
	reuse, err := f.readReuse()
	if err != nil {
		return nil, err
	}
	s, err := a.readSettings(c, f, extra)
	if err != nil {
		return nil, err
	}
	image, err := readReference(f)
	if err != nil {
		return nil, err
	}
	if image != nil && extra.has("referenceImage") {
		return nil, errSame(referenceParam, "referenceImage")
	}
	identity := []any{"create", prompt, s.Model, s.Seconds, s.Size, image.identity()}
	if len(extra.values) > 0 {
		identity = append(identity, s.params)
	}
	if reuse {
		identity = append(identity, reuseParam)
	}
	answer, err := a.submit(w, c, order{prompt: prompt, settings: s, image: image, reuse: reuse, identity: identity})
	return answer, extra.refuse(err)
}

// remix submits a video with a new prompt and the settings of a completed one.
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
	s := &settings{Model: shown.Model, Seconds: shown.Seconds, Size: shown.Size, target: source.Model, params: map[string]any{}}
	if s.model, err = a.known(c).Model(source.Model); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(source.Params, &s.params); err != nil {
		return nil, fmt.Errorf("read the params of %s: %w", id, err)
	}
	answer, err := a.submit(w, c, order{prompt: prompt, settings: s, remixOf: id, identity: []any{"remix", id, prompt}})
	var gone *apierror.Error
	if errors.As(err, &gone) && gone.Code == apierror.CodeNotFound && s.params["referenceImage"] != nil {
		return nil, invalid("invalid_state", "video_id",
			"The reference image of this video no longer exists, so the video cannot be remixed. Create a video and send the image again.")
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

func (a *api) readSettings(c *call, f fields, extra *extras) (*settings, error) {
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
	return a.settle(c, name, seconds, size, extra)
}

// order is a video to submit.
type order struct {
	prompt string
	*settings
	image   *reference
	remixOf models.JobID
	reuse   bool
	// identity is the same in a repeated request.
	identity []any
}

// submit submits a job, or returns the job of an equal request.
func (a *api) submit(w http.ResponseWriter, c *call, o order) (any, error) {
	key, err := door.IdempotencyKey(c.Header)
	if err != nil {
		return nil, err
	}
	request := submit.VideoRequest{
		Model: o.Model, Size: o.Size, Seconds: o.Seconds, RemixOf: o.remixOf,
		Digest: digest(c.secret, o.identity), Retry: retryCount(c.Header),
	}
	// A repeated request stores no image and is subject to no limit.
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
	v, _, err := a.Videos.Create(c.Context(), c.caller, submit.Submission{
		Model: o.target, Prompt: o.prompt, Params: raw, IdempotencyKey: key, Reuse: o.reuse,
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

// digest identifies a request of the holder of a secret. The secret is stored nowhere, so
// that nobody can use a digest to guess a prompt.
func digest(secret string, identity []any) []byte {
	canonical, err := json.Marshal(identity)
	if err != nil { // texts and lists of texts
		panic(err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(canonical)
	return mac.Sum(nil)
}

// maxRetries is the highest count that is distinguished from higher ones.
const maxRetries = 100

// retryCount returns the number of retries that the sender has counted. The official
// packages count them. A retry has the same fields, but another multipart boundary.
func retryCount(h http.Header) int {
	n, err := strconv.Atoi(h.Get("X-Stainless-Retry-Count"))
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxRetries)
}

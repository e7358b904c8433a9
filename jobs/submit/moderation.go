package submit

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
)

// Moderator decides by their content which jobs are accepted.
type Moderator interface {
	// Moderate returns an answer for each content, in their order: nil if it is allowed, CONTENT_POLICY
	// with the reason if it is not, and UNAVAILABLE if that cannot be found out now.
	Moderate(ctx context.Context, all []Content) []error
}

// Moderation is what became of the question about one content.
type Moderation string

const (
	Allowed Moderation = "allowed"
	Refused Moderation = "refused"
	// Failed means that there was no valid answer, and the job was refused; Unchecked, that it was
	// accepted nevertheless.
	Failed    Moderation = "failed"
	Unchecked Moderation = "unchecked"
)

// Content is what a Moderator learns of a job that is submitted.
type Content struct {
	// JobID is the id that the job has if it is accepted.
	JobID          models.JobID     `json:"jobId"`
	AccountID      models.AccountID `json:"accountId"`
	UserID         string           `json:"userId"`
	JobType        string           `json:"jobType"`
	Model          string           `json:"model"`
	Prompt         string           `json:"prompt"`
	NegativePrompt string           `json:"negativePrompt"`
	Params         json.RawMessage  `json:"params"`
	Inputs         []ContentInput   `json:"inputs"`
}

// ContentInput is a file that a job starts from. What is not known of it is empty: of a file at a URL,
// and of the output of another job.
type ContentInput struct {
	// Param is the parameter that names the file, and Reference what it says: the id of an artifact or
	// of a job, or a URL.
	Param       string `json:"param"`
	Reference   string `json:"reference"`
	ContentType string `json:"contentType,omitempty"`
	SizeBytes   int64  `json:"sizeBytes,omitempty"`
	CRC32C      string `json:"crc32c,omitempty"` // base64
	BLAKE3      string `json:"blake3,omitempty"` // hexadecimal
}

// moderate asks about the jobs that a call is about to write, and sets the error of each refused one. It
// does not ask again about a repeated idempotency key, about a draft that is continued, whose content was
// allowed before, and about approvals, which make nothing.
func (s *Submitter) moderate(ctx context.Context, call *submitCall) error {
	if s.Moderator == nil || call.set[0].in.continues != "" {
		return nil
	}
	var asked []*submission
	var keys []models.JobKey
	for i := range call.set {
		one := &call.set[i]
		if one.err != nil || one.badInput != nil || one.asked.Approval() || one.in.node != nil && one.in.node.Continues != "" {
			continue
		}
		asked = append(asked, one)
		if one.asked.IdempotencyKey != "" {
			keys = append(keys, call.key(one))
		}
	}
	used, err := s.usedKeys(ctx, keys)
	if err != nil {
		return err
	}
	var fresh []*submission
	var all []Content
	for _, one := range asked {
		if !used[call.key(one)] {
			fresh, all = append(fresh, one), append(all, one.content())
		}
	}
	if len(all) == 0 {
		return nil
	}
	for i, err := range s.Moderator.Moderate(ctx, all) {
		if err != nil && Refusal(err) == nil {
			return err
		}
		fresh[i].err = err
	}
	return nil
}

// usedKeys returns which idempotency keys have a job.
func (s *Submitter) usedKeys(ctx context.Context, keys []models.JobKey) (map[models.JobKey]bool, error) {
	found, err := models.FindUsedKeys(ctx, s.DB, keys)
	used := make(map[models.JobKey]bool, len(found))
	for _, key := range found {
		used[key] = true
	}
	return used, err
}

// content returns what a Moderator learns of a prepared submission.
func (one *submission) content() Content {
	job := &one.asked
	c := Content{
		JobID: job.ID, AccountID: job.AccountID, UserID: job.UserID, JobType: job.Type, Model: job.Model,
		Prompt: one.in.Prompt, Params: job.Params, Inputs: make([]ContentInput, len(one.files)),
	}
	var params struct {
		NegativePrompt string `json:"negativePrompt"`
	}
	if json.Unmarshal(job.Params, &params) == nil { // else the model uses the name for something else
		c.NegativePrompt = params.NegativePrompt
	}
	for i, file := range one.files {
		c.Inputs[i] = contentOf(file, one.stored)
	}
	return c
}

func contentOf(file catalogue.Input, stored inputs.Stored) ContentInput {
	in := ContentInput{Param: file.Name, Reference: file.Reference}
	if a := stored.Artifacts[file.Reference]; a != nil {
		in.ContentType, in.SizeBytes, in.CRC32C, in.BLAKE3 = a.ContentType, a.SizeBytes, a.Checksum, hex.EncodeToString(a.Blake3)
	}
	return in
}

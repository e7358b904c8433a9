package rest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
)

// HoldInput is for how long an answer is held.
type HoldInput struct {
	Wait int `query:"wait" minimum:"0" maximum:"60" doc:"Seconds to wait for the end of the job before responding."`
}

const (
	// heldLook is how often a held answer is looked at, at most.
	heldLook = 200 * time.Millisecond
	// lastWord is how long an answer may take whose request was cut short.
	lastWord = 5 * time.Second
)

// lasting is a context in which a request that was cut short can still be
// answered.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWord)
}

// hold returns a job once it has ended, or as it is after so many seconds, or
// when the request is cut short: a process that ends keeps nobody waiting.
func (s *service) hold(ctx context.Context, id models.JobID, seconds int) (*models.Job, error) {
	p := callerOf(ctx)
	if seconds == 0 {
		return s.Reader.Job(ctx, p.Principal, id)
	}
	watched, end, err := s.Keys.While(ctx, p.secret)
	if err != nil {
		return nil, err
	}
	defer end(nil)
	limited, cancel := context.WithTimeout(watched, time.Duration(seconds)*time.Second)
	defer cancel()
	var last *models.Job
	err = s.Watcher.Job(limited, p.Principal, id, heldLook, func(job *models.Job) error {
		last = job
		return nil
	})
	switch {
	case errors.Is(context.Cause(watched), apierror.ErrUnauthenticated):
		return nil, apierror.ErrUnauthenticated
	case limited.Err() != nil && last != nil:
		return last, nil
	}
	return last, err
}

// IfNoneMatch is what the caller knows already.
type IfNoneMatch struct {
	Tags string `header:"If-None-Match" doc:"The ETag of an earlier response: 304 if the job has not changed."`
}

func (m IfNoneMatch) matches(tag string) bool {
	for given := range strings.SplitSeq(m.Tags, ",") {
		given = strings.TrimSpace(given)
		if given == "*" || strings.TrimPrefix(given, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// tag is the ETag of an answer with a job's summary, and with more of the job. It is
// a weak one: links are signed anew in each answer, and who keeps an answer gets
// fresh ones within the hour.
func tag(s query.Summary, more ...any) (string, error) {
	hour := time.Now().Truncate(time.Hour).Unix()
	if s.ResultURL == nil && s.ThumbnailURL == nil {
		hour = 0
	}
	s.ResultURL, s.ThumbnailURL = nil, nil
	raw, err := json.Marshal([]any{s, hour, more})
	sum := sha256.Sum256(raw)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, err
}

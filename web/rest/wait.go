package rest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
)

// WaitInput is how long a response may wait for the end of the job.
type WaitInput struct {
	Wait int `query:"wait" minimum:"0" maximum:"60" doc:"Seconds to wait for the end of the job before responding."`
}

const (
	// leastLook is the shortest time between two reads of the job.
	leastLook = 200 * time.Millisecond
	// lastWord bounds the response to a request whose context has ended.
	lastWord = 5 * time.Second
)

// lasting returns a context in which a request can still be answered after its own
// context has ended.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWord)
}

// awaitEnd waits until a job has ended, for at most so many seconds, and returns it. If the
// request's context ends first, because the process is stopping, it returns the job as
// it is then.
func (s *service) awaitEnd(ctx context.Context, id models.JobID, seconds int) (*models.Job, error) {
	p := callerOf(ctx)
	if seconds == 0 {
		return s.Reads.Jobs.Get(ctx, p.Principal, id)
	}
	watched, end, err := s.Keys.While(ctx, p.secret)
	if err != nil {
		return nil, err
	}
	defer end(nil)
	limited, cancel := context.WithTimeout(watched, time.Duration(seconds)*time.Second)
	defer cancel()
	var last *models.Job
	err = s.Watcher.Job(limited, p.Principal, id, leastLook, func(job *models.Job) error {
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

// IfNoneMatch lists the responses that the caller already has.
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

// tag returns the ETag of a response with a job's summary and more of the job. It is a
// weak one, because each response has newly signed links. It changes every hour, so that
// a cached response never keeps links for longer.
func tag(s wire.Summary, more ...any) (string, error) {
	hour := time.Now().Truncate(time.Hour).Unix()
	if s.ResultURL == nil && s.ThumbnailURL == nil && s.PreviewURL == nil {
		hour = 0
	}
	s.ResultURL, s.ThumbnailURL, s.PreviewURL = nil, nil, nil
	s.Deadline = s.Deadline.Steady()
	raw, err := json.Marshal([]any{s, hour, more})
	sum := sha256.Sum256(raw)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, err
}

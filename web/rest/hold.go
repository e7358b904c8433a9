package rest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// HoldInput is for how long an answer is held.
type HoldInput struct {
	Wait int `query:"wait" minimum:"0" maximum:"60" doc:"Seconds to hold the answer for until the job has ended."`
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

// maxOpen is how many answers one key may have open at once in this process,
// held ones and streams together.
const maxOpen = 1000

// open counts the answers that are open, by key.
type open struct {
	mu sync.Mutex
	n  map[models.KeyID]int
}

// begin counts one more of the caller's, until end is called, or returns
// RATE_LIMITED.
func (o *open) begin(key models.KeyID) (end func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n[key] >= maxOpen {
		return nil, jobs.Later(jobs.CodeRateLimited, time.Second,
			"This key holds %d answers open here: end some streams or waits, or ask without them.", maxOpen)
	}
	o.n[key]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.n[key]--; o.n[key] == 0 {
			delete(o.n, key)
		}
	}, nil
}

// hold returns a job once it has ended, or as it is after so many seconds, or
// when the request is cut short: a process that ends keeps nobody waiting.
func (s *service) hold(ctx context.Context, id models.JobID, seconds int) (*models.Job, error) {
	p := callerOf(ctx)
	if seconds == 0 {
		return s.Reader.Job(ctx, p.Principal, id)
	}
	release, err := s.open.begin(p.KeyID)
	if err != nil {
		return nil, err
	}
	defer release()
	watched, end := s.whileKeyIsValid(ctx)
	defer end(nil)
	limited, cancel := context.WithTimeout(watched, time.Duration(seconds)*time.Second)
	defer cancel()
	var last *models.Job
	err = s.Watcher.Job(limited, p.Principal, id, heldLook, func(job *models.Job) error {
		last = job
		return nil
	})
	switch {
	case errors.Is(context.Cause(watched), jobs.ErrUnauthenticated):
		return nil, jobs.ErrUnauthenticated
	case limited.Err() != nil && last != nil:
		return last, nil
	}
	return last, err
}

// whileKeyIsValid is a context that ends, for that reason, when the caller's key
// is not valid any more.
func (s *service) whileKeyIsValid(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	secret := callerOf(ctx).secret
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		ticker := time.NewTicker(s.CheckKeysEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if _, err := s.Authenticate(ctx, secret); errors.Is(err, jobs.ErrUnauthenticated) {
				end(jobs.ErrUnauthenticated)
				return
			}
		}
	}()
	return ctx, end
}

// IfNoneMatch is what the caller knows already.
type IfNoneMatch struct {
	Tags string `header:"If-None-Match" doc:"The ETag of an earlier answer: 304 if the job is still the same."`
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

// tag is a job's ETag. It is a weak one: links are signed anew in each answer,
// and who keeps an answer gets fresh ones within the hour.
func tag(s jobs.Summary) (string, error) {
	hour := time.Now().Truncate(time.Hour).Unix()
	if s.ResultURL == nil && s.ThumbnailURL == nil {
		hour = 0
	}
	s.ResultURL, s.ThumbnailURL = nil, nil
	raw, err := json.Marshal([]any{s, hour})
	sum := sha256.Sum256(raw)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, err
}

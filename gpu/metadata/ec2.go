package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	tokenPath     = "/latest/api/token"
	actionPath    = "/latest/meta-data/spot/instance-action"
	rebalancePath = "/latest/meta-data/events/recommendations/rebalance"

	// tokenSeconds is how long a token of the metadata service is valid.
	tokenSeconds = "21600"
	// maxAhead bounds how far the time of a notice may be away: AWS gives two minutes.
	maxAhead = time.Hour
)

// ec2Token opens a session of the metadata service (IMDSv2).
func ec2Token(ctx context.Context, s *server) (string, error) {
	token, _, err := s.ask(ctx, answerTimeout, "PUT", tokenPath, "X-aws-ec2-metadata-token-ttl-seconds", tokenSeconds)
	if err == nil && token == "" {
		err = errors.New("the metadata server gave an empty token")
	}
	return token, err
}

// watchEC2 waits for the notice that the machine is interrupted, which EC2 gives two minutes
// before. A recommendation to leave is only logged: the machine may stay for hours.
func (w Watcher) watchEC2(ctx context.Context, s *server, tell func(Notice)) {
	token, recommended := "", false
	ahead := time.Duration(0)
	get := func(path string) (string, error) {
		if token == "" {
			var err error
			if token, err = ec2Token(ctx, s); err != nil {
				return "", err
			}
		}
		value, header, err := s.ask(ctx, answerTimeout, "GET", path, "X-aws-ec2-metadata-token", token)
		ahead = aheadOf(header)
		if status := statusError(0); errors.As(err, &status) && status == http.StatusUnauthorized {
			token = "" // it has expired
		}
		return value, err
	}
	w.follow(ctx, actionPath, func() (bool, error) {
		document, err := get(actionPath)
		if err == nil {
			notice, err := w.ec2Notice(document, ahead)
			if err == nil {
				tell(notice)
			}
			return err == nil, err
		}
		if !errors.Is(err, errAbsent) {
			return false, err
		}
		if !recommended {
			if document, err := get(rebalancePath); err == nil {
				recommended = true
				w.Log.Info("EC2 recommends to leave this machine, which has an elevated risk of interruption", "document",
					document[:min(len(document), 200)])
			}
		}
		sleep(ctx, w.pace.poll)
		return false, nil
	})
}

// aheadOf returns how far the clock of the metadata server is ahead of the machine's, which may be
// wrong. A few seconds are what an answer and its header's precision take.
func aheadOf(header http.Header) time.Duration {
	at, err := http.ParseTime(header.Get("Date"))
	if ahead := time.Until(at); err == nil && ahead.Abs() > 5*time.Second {
		return ahead
	}
	return 0
}

// ec2Notice reads a document such as {"action": "terminate", "time": "2026-09-18T08:22:00Z"}, whose
// clock is ahead of the machine's.
func (w Watcher) ec2Notice(document string, ahead time.Duration) (Notice, error) {
	var d struct {
		Action string
		Time   time.Time
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		return Notice{}, fmt.Errorf("the notice of the interruption cannot be read: %w", err)
	}
	does := map[string]string{"terminate": "terminates", "stop": "stops", "hibernate": "hibernates"}[d.Action]
	if does == "" {
		return Notice{}, fmt.Errorf("the notice of the interruption has the unknown action %.40q", d.Action)
	}
	// A time that is past means that a clock is wrong: the machine still exists.
	deadline := d.Time.Add(-ahead)
	if left := time.Until(deadline); left <= 0 || left > maxAhead {
		deadline = time.Now().Add(w.Notice)
	}
	return Notice{Reason: "EC2 " + does + " this machine", Deadline: deadline}, nil
}

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
)

// A tenth of the daily load (bench/daily.go).
const (
	readsPerSecond = 120
	followers      = 50
)

// some returns a job that was acknowledged, one of the newest, or nil.
func (l *load) some(random *rand.Rand) *request {
	all := l.ledger.all()
	if len(all) == 0 {
		return nil
	}
	newest := all[max(0, len(all)-200):]
	if r := newest[random.IntN(len(newest))]; r.job() != "" {
		return r
	}
	return nil
}

// read reads jobs at a fixed rate until ctx ends.
func (l *load) read(ctx context.Context, random *rand.Rand) {
	tick := time.NewTicker(time.Second / readsPerSecond)
	defer tick.Stop()
	var reading sync.WaitGroup
	defer reading.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := l.some(random)
		if r == nil {
			continue
		}
		reading.Go(func() {
			limited, cancel := context.WithTimeout(ctx, callLimit)
			defer cancel()
			err := l.callers[r.Tenant].ask(limited, `query($id: ID!) { job(id: $id) { id status progress { percent phase etaSeconds } } }`,
				map[string]any{"id": r.job()}, nil)
			if err == nil {
				l.counters.add(metReads, 1)
			}
		})
	}
}

// follow keeps subscriptions to the events of jobs open until ctx ends.
func (l *load) follow(ctx context.Context, random *rand.Rand) {
	var following sync.WaitGroup
	defer following.Wait()
	for range followers {
		random := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		following.Go(func() {
			for ctx.Err() == nil {
				r := l.some(random)
				if r == nil {
					sleep(ctx, time.Second)
					continue
				}
				l.followJob(ctx, r)
			}
		})
	}
}

// followJob reads the events of a job until the server says that there are no more. Where a stream
// ends, it goes on in another, as customers do.
func (l *load) followJob(ctx context.Context, r *request) {
	newest := 0
	for ctx.Err() == nil {
		began := time.Now()
		over, err := l.callers[r.Tenant].events(ctx, r.job(), &newest, func(gap bool) {
			l.counters.add(metEvents, 1)
			if gap {
				l.counters.add(badEventGap, 1)
			}
		})
		if over || ctx.Err() != nil {
			return
		}
		l.counters.add(metReopened, 1)
		if err != nil {
			l.calls.add(time.Since(began), err)
			sleep(ctx, 100*time.Millisecond)
		}
	}
}

// events reads the events after newest from one stream. It returns true after the job's last event,
// and no error if the server ended the stream so that it is opened again.
func (c caller) events(ctx context.Context, job string, newest *int, heard func(gap bool)) (over bool, err error) {
	body, err := json.Marshal(map[string]any{
		"query":     `subscription($id: ID!, $after: Int!) { jobEvents(jobId: $id, afterSeq: $after) { seq } }`,
		"variables": map[string]any{"id": job, "after": *newest},
	})
	if err != nil {
		return false, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+"/graphql", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+c.key)
	answer, err := c.http.Do(r)
	if err != nil {
		return false, unavailable(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if bytes.Equal(lines.Bytes(), []byte("event: complete")) {
			return true, nil
		}
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if answer.StatusCode != http.StatusOK { // an api that stops refuses a new stream as it ends those that are open
			data, found = lines.Bytes(), true
		}
		if !found {
			continue
		}
		var message struct {
			Data   struct{ JobEvents struct{ Seq int } }
			Errors []struct {
				Message    string
				Extensions struct{ Code client.Code }
			}
		}
		if err := json.Unmarshal(data, &message); err != nil {
			return false, unavailable(fmt.Errorf("a stream was answered with %s: %w", answer.Status, err))
		}
		if len(message.Errors) > 0 {
			if code := message.Errors[0].Extensions.Code; code != client.CodeUnavailable {
				return false, &client.Error{Code: code, Message: message.Errors[0].Message}
			}
			return false, nil
		}
		seq := message.Data.JobEvents.Seq
		heard(seq != *newest+1)
		*newest = seq
	}
	return false, unavailable(fmt.Errorf("a stream broke off after event %d: %w", *newest, cmp.Or(lines.Err(), io.EOF)))
}

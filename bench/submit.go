package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Names of contestants.
const (
	reelay     = "Reelay"
	riverName  = "River Insert"
	riverBulk  = "River InsertManyFast"
	asynqName  = "asynq"
	faktorName = "Faktory"
)

const (
	submitQuery  = "mutation submitJob($input: SubmitJobInput!) { submitJob(input: $input) { job { id status } deduplicated } }"
	submitsQuery = "mutation submitJobs($inputs: [SubmitJobInput!]!) { submitJobs(inputs: $inputs) { accepted rejected results { job { id status } deduplicated } } }"
)

// benchPrompt makes a job as large as the 398 bytes of arguments of the peers' jobs.
var benchPrompt = strings.Repeat("a lighthouse in a storm, ", 16)[:384]

// keyMark is the placeholder that each request replaces by its own idempotency key.
const keyMark = "idempotency-key-0000000000000000000000000000"

// body is a request with constant parts and placeholders that each request sets.
type body struct {
	text []byte
	at   []int
}

// newBody encodes a request and finds its placeholders.
func newBody(query string, variables any, mark string) (*body, error) {
	text, err := json.Marshal(struct {
		Query     string `json:"query"`
		Variables any    `json:"variables"`
	}{query, variables})
	if err != nil {
		return nil, err
	}
	b := &body{text: text}
	for from := 0; mark != ""; {
		i := strings.Index(string(text[from:]), mark)
		if i < 0 {
			break
		}
		b.at, from = append(b.at, from+i), from+i+len(mark)
	}
	return b, nil
}

// keys makes unique idempotency keys of the length of keyMark.
type keys struct {
	prefix string
	n      int
}

func newKeys() *keys { return &keys{prefix: strings.ReplaceAll(uuid.NewString(), "-", "")} }

// put sets all keys of a request.
func (k *keys) put(b *body) {
	for _, at := range b.at {
		k.n++
		digits := strconv.Itoa(k.n)
		place := b.text[at : at+len(keyMark)]
		for i := range place {
			place[i] = '0'
		}
		copy(place, k.prefix)
		copy(place[len(place)-len(digits):], digits)
	}
}

func submission() map[string]any {
	return map[string]any{"model": "testcard", "prompt": benchPrompt, "idempotencyKey": keyMark}
}

// submitBy measures submitJob with this many concurrent clients.
func submitBy(clients int) Measurement {
	m := Measurement{
		Name: "submit", Title: fmt.Sprintf("submitJob, one job each, %s", several(clients, "client")), Unit: "jobs",
		Note: "Ours: GraphQL over HTTP, answered after the commit. Checks the key, encrypts a prompt of 384 bytes, and writes the idempotency key, the counters of 8 accounts, events and outbox.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			steps, err := s.submitters(ctx, clients, submitQuery, func() any { return map[string]any{"input": submission()} }, 1)
			if err != nil {
				return nil, err
			}
			all := []Contestant{ours(s, steps)}
			all = s.limit(ctx).with(all, func(l *limit) Contestant {
				return l.contestant("insert", min(clients, mostConns), 1, "TRUNCATE jobs",
					"one row of 398 bytes with three indexes, one commit; at most 64 clients")
			})
			all = s.peer(ctx, "river").with(all, riverName, order{what: "river insert", clients: clients}, "in process, no HTTP, no key; one row")
			all = s.peer(ctx, "asynq").with(all, asynqName, order{what: "asynq enqueue", clients: clients},
				"in process, Redis: up to 1 s of acknowledged jobs may be lost")
			all = s.peer(ctx, "faktory").with(all, faktorName, order{what: "faktory push", clients: clients},
				"over TCP, its own Redis: up to 30 s of acknowledged jobs may be lost")
			return all, nil
		},
	}
	if clients == 32 {
		m.Targets = []Target{
			{Name: "submitJob, 32 clients, against River's Insert", Figure: "rate", Against: riverName, Bound: 2.5},
			{Name: "submitJob, 32 clients, against single-row commits", Figure: "rate", Against: "pgbench insert", Bound: 0.6},
		}
	}
	return m
}

// submitMany measures submitJobs with 100 jobs.
func submitMany() Measurement {
	const clients, each = 8, 100
	return Measurement{
		Name: "submit", Title: "submitJobs, 100 each, 8 clients", Unit: "jobs",
		Targets: []Target{{Name: "submitJobs of 100 against River's InsertManyFast", Figure: "rate", Against: riverBulk, Bound: 1}},
		Note:    "Ours: as submitJob, with 100 jobs per request, each with an idempotency key, events and outbox.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			steps, err := s.submitters(ctx, clients, submitsQuery, func() any {
				all := make([]any, each)
				for i := range all {
					all[i] = submission()
				}
				return map[string]any{"inputs": all}
			}, each)
			if err != nil {
				return nil, err
			}
			all := []Contestant{ours(s, steps)}
			all = s.limit(ctx).with(all, func(l *limit) Contestant {
				return l.contestant("insert-100", clients, each, "TRUNCATE jobs, events, outbox",
					"a job, an event and an outbox row each, 100 of each in a commit")
			})
			all = s.peer(ctx, "river").with(all, riverBulk, order{what: "river insert-many-fast", clients: clients},
				"in process, COPY, one row each")
			all = s.peer(ctx, "faktory").with(all, faktorName, order{what: "faktory push-bulk", clients: clients},
				"over TCP, up to 30 s may be lost")
			return all, nil
		},
	}
}

// ours returns the contestant for Reelay under a load.
func ours(s *Site, steps []step) Contestant {
	return Contestant{Name: reelay, Role: Ours, Round: func(ctx context.Context) (Figures, error) {
		return s.atLoad(ctx, steps)
	}}
}

// submitters returns clients that post the same request with new keys each time.
func (s *Site) submitters(ctx context.Context, clients int, query string, variables func() any, each int) ([]step, error) {
	customers, err := s.customers(ctx, accountsOfBench)
	if err != nil {
		return nil, err
	}
	conns, err := s.conns(clients, customers)
	if err != nil {
		return nil, err
	}
	steps := make([]step, clients)
	for i := range steps {
		b, err := newBody(query, variables(), keyMark)
		if err != nil {
			return nil, err
		}
		keys, c := newKeys(), conns[i]
		steps[i] = func() (int, error) {
			keys.put(b)
			answer, err := c.Post(b.text)
			if err == nil && each > 1 && !bytes.Contains(answer, []byte(`"rejected":0`)) {
				err = fmt.Errorf("the API rejected some jobs: %.300s", answer)
			}
			return each, err
		}
	}
	return steps, nil
}

func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

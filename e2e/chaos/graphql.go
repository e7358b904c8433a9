package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/reelay/reelay/client"
)

// caller is one key at one address of the API. The soak needs every operation, and the
// client package has only those of the CLI and the agent.
type caller struct {
	endpoint, key string
	http          *http.Client
	calls         *calls // counts the calls, if it is not nil
}

// direct returns a caller that bypasses all faults.
func (s *stack) direct(key string) caller { return caller{s.directAt, key, http.DefaultClient, nil} }

// ask sends one operation and decodes its data into out, unless that is nil. Its error is a
// *client.Error. After UNAVAILABLE, the operation may have been executed or not.
func (c caller) ask(ctx context.Context, query string, variables map[string]any, out any) error {
	began := time.Now()
	err := c.send(ctx, query, variables, out)
	if c.calls != nil && !errors.Is(ctx.Err(), context.Canceled) {
		c.calls.add(time.Since(began), err)
	}
	return err
}

func (c caller) send(ctx context.Context, query string, variables map[string]any, out any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.key)
	answer, err := c.http.Do(r)
	if err != nil {
		return unavailable(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return unavailable(err)
	}
	var envelope struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct{ Code client.Code }
		}
	}
	if err := json.Unmarshal(text, &envelope); err != nil {
		return unavailable(fmt.Errorf("%s is no answer: %w", answer.Status, err))
	}
	if len(envelope.Errors) > 0 {
		return &client.Error{Code: envelope.Errors[0].Extensions.Code, Message: envelope.Errors[0].Message}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(envelope.Data, out)
}

func unavailable(err error) error {
	return &client.Error{Code: client.CodeUnavailable, Message: err.Error()}
}

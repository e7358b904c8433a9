package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// ask sends one GraphQL operation past all faults and decodes its data into out,
// unless that is nil. The client package has only what the CLI and the agent
// need.
func (s *stack) ask(ctx context.Context, key, query string, variables map[string]any, out any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.directAt+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var envelope struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&envelope); err != nil {
		return fmt.Errorf("read the answer (%s): %w", answer.Status, err)
	}
	if len(envelope.Errors) > 0 {
		return fmt.Errorf("the API refuses: %s", envelope.Errors[0].Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(envelope.Data, out)
}

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

// serveOperations starts an API that answers each operation by its name, with data as JSON, and
// keeps the variables of each.
func serveOperations(t *testing.T, answers map[string]string) (url string, variables map[string]map[string]any) {
	t.Helper()
	variables = map[string]map[string]any{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			OperationName string
			Variables     map[string]any
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		variables[request.OperationName] = request.Variables
		data, known := answers[request.OperationName]
		if !known {
			http.Error(w, "no answer to "+request.OperationName, http.StatusBadRequest)
			return
		}
		if strings.HasPrefix(data, "!") { // an error: !CODE message
			code, message, _ := strings.Cut(data[1:], " ")
			_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{"message": message,
				"extensions": map[string]any{"code": code}}}})
			return
		}
		_, _ = w.Write([]byte(`{"data": ` + data + `}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, variables
}

func TestShortIDs(t *testing.T) {
	t.Parallel()
	const id = "job_01937d3e-1111-7aaa-8000-000000000001"
	const cancelled = `{"cancelJob": {"id": "` + id + `", "status": "CANCELLED"}}`

	for name, c := range map[string]struct {
		arg, asks string
	}{
		"a prefix":                {"job_01937d3e", "job_01937d3e"},
		"without the kind":        {"01937d3e-1111", "job_01937d3e-1111"},
		"in upper case":           {"01937D3E", "job_01937d3e"},
		"as lists of others show": {"job_01937d3e…", "job_01937d3e"},
		"a whole id":              {strings.ToUpper(id), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := serveOperations(t, map[string]string{"ids": `{"ids": ["` + id + `"]}`, "cancelJob": cancelled})

			status, _, errs := call(t, t.Context(), "cancel", c.arg, "--endpoint", url, "--key", "rl_x")

			require.Zero(t, status, errs)
			require.Equal(t, id, asked["cancelJob"]["id"])
			if c.asks != "" {
				require.Equal(t, c.asks, asked["ids"]["prefix"])
			} else {
				require.NotContains(t, asked, "ids")
			}
		})
	}

	for name, c := range map[string]struct{ found, says string }{
		"none": {`[]`, "there is no job whose id begins with job_01937d3e"},
		"many": {`["` + id + `", "job_01937d3e-2222-7aaa-8000-000000000001"]`, "more than one job has an id that begins with job_01937d3e:\n  " +
			id + "\n  job_01937d3e-2222"},
	} {
		t.Run("Refuses "+name, func(t *testing.T) {
			t.Parallel()
			url, asked := serveOperations(t, map[string]string{"ids": `{"ids": ` + c.found + `}`})

			status, _, errs := call(t, t.Context(), "cancel", "01937d3e", "--endpoint", url, "--key", "rl_x")

			require.Equal(t, terminal.ExitFailed, status)
			require.Contains(t, errs, c.says)
			require.NotContains(t, asked, "cancelJob")
		})
	}
}

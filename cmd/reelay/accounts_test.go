package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccounts(t *testing.T) {
	t.Parallel()

	listed := func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"data":{"accounts":{"edges":[{"node":{"id":"acc_1","name":"acme","tier":"PRO"}}],"pageInfo":{"hasNextPage":false}}}}`))
	}
	made := func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"data":{"createAccount":{"id":"acc_2","name":"acme","tier":"PRO"}}}`))
	}
	create := func(t *testing.T, url string, more ...string) (int, string, string) {
		t.Helper()
		return call(t, t.Context(), append([]string{"accounts", "create", "--tier", "pro", "--endpoint", url, "--key", "rl_x"}, more...)...)
	}

	t.Run("RefusesANameThatExists", func(t *testing.T) {
		t.Parallel()
		server, url := serveFaulty(t, listed)

		status, _, errs := create(t, url, "--name", "acme")

		require.Equal(t, 1, status)
		require.Contains(t, errs, `an account with the name "acme" exists: acc_1.`)
		require.Len(t, server.received(), 1, "it asked for no other")
	})

	t.Run("CreatesAnotherNameOrForcesADuplicate", func(t *testing.T) {
		t.Parallel()
		for name, answers := range map[string][]http.HandlerFunc{"--name=apex": {listed, made}, "--name=acme --force": {made}} {
			_, url := serveFaulty(t, answers...)

			status, out, errs := create(t, url, strings.Fields(name)...)

			require.Zero(t, status, errs)
			require.Contains(t, out, "acc_2")
		}
	})

	t.Run("ListsWithAndWithoutTheSubcommand", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"accounts"}, {"accounts", "list"}} {
			_, url := serveFaulty(t, listed)

			status, out, errs := call(t, t.Context(), append(args, "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			require.Regexp(t, `ACCOUNT.*\nacc_1 +acme +PRO `, out)
		}
	})
}

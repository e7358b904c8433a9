package main

import (
	"context"
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

func TestDeleteAccount(t *testing.T) {
	t.Parallel()

	listed := func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"data":{"accounts":{"edges":[{"node":{"id":"acc_1","name":"acme","tier":"PRO"}}],"pageInfo":{"hasNextPage":false}}}}`))
	}
	none := func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"data":{"accountDeletion":null},
			"errors":[{"message":"There is no such deletion of an account.","extensions":{"code":"NOT_FOUND"}}]}`))
	}
	answer := func(field, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"data":{"` + field + `":{"accountId":"acc_1","name":"acme","startedAt":"2027-01-02T03:04:05Z","jobsLeft":12,
				"unfinishedJobs":1,"deleted":[{"kind":"JOBS","count":30},{"kind":"VIEWS","count":0}],"kept":[{"kind":"LEDGER","count":42}],"pools":[{"name":"own","servesNobody":true}]` +
				more + `}}}`))
		}
	}
	const over = `,"finishedAt":"2027-01-02T03:05:05Z","objectsGoneAt":"2027-01-03T15:05:05Z"`
	deletes := func(t *testing.T, url string, more ...string) (int, string, string) {
		t.Helper()
		return call(t, t.Context(), append([]string{"accounts", "delete", "acme", "--endpoint", url, "--key", "rl_x"}, more...)...)
	}

	t.Run("NeedsTheNameWithoutATerminal", func(t *testing.T) {
		t.Parallel()
		detailed := func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"data":{"accounts":{"edges":[{"node":{"id":"acc_1","name":"acme","tier":"PRO","queued":2,"running":1}}],"pageInfo":{"hasNextPage":false}}}}`))
		}
		counted := func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"data":{"jobs":{"edges":[],"pageInfo":{"hasNextPage":false},"totalCount":40}}}`))
		}
		_, url := serveFaulty(t, listed, none, detailed, counted)

		status, _, errs := deletes(t, url)

		require.Equal(t, 2, status)
		require.Contains(t, errs, `This deletes the account "acme" (acc_1) with all its data: 40 jobs, of which 1 run and 2 wait.`)
		require.Contains(t, errs, "reelay costs statement --account acc_1 --month ")
		require.Contains(t, errs, "answer with --yes-delete and the name of the account")
	})

	t.Run("ShowsItsProgressAndTheReport", func(t *testing.T) {
		t.Parallel()
		_, url := serveFaulty(t, listed, none, answer("deleteAccount", ""), answer("accountDeletion", `,"doing":"JOBS"`),
			answer("accountDeletion", over))

		status, out, errs := deletes(t, url, "--yes-delete", "acme")

		require.Zero(t, status, errs)
		require.Contains(t, errs, "Deleting acme: 12 jobs left, 1 of them unfinished (starting)")
		require.Contains(t, errs, "1 of them unfinished (jobs)")
		require.Regexp(t,
			`The account acme \(acc_1\) was deleted at .*\.\n\nDATA +FATE +COUNT\njobs +deleted +30\nledger +kept +42\n\n`+
				`The pool own was dedicated to it and gets no workers now: reelay pools delete own\n\n`+
				`The account acme \(acc_1\) is deleted\. Its files are gone by .*\.\n$`, out)
	})

	t.Run("SaysHowToContinueAfterAnInterruption", func(t *testing.T) {
		t.Parallel()
		ctx, interrupt := context.WithCancel(t.Context())
		_, url := serveFaulty(t, listed, none, answer("deleteAccount", ""), func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		})

		status, _, errs := call(t, ctx, "accounts", "delete", "acme", "--yes-delete", "acme", "--endpoint", url, "--key", "rl_x")

		require.Equal(t, 130, status)
		require.Contains(t, errs, "the server continues the deletion. Follow it with: reelay accounts deletions acc_1")
	})

	t.Run("ContinuesOneThatWasStarted", func(t *testing.T) {
		t.Parallel()
		_, url := serveFaulty(t, listed, answer("accountDeletion", ""), answer("deleteAccount", over))

		status, out, errs := deletes(t, url, "--json")

		require.Zero(t, status, errs)
		require.Contains(t, out, `"accountId": "acc_1"`)
	})
}

package query_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	s, job, worker, _ := jobstest.Leased(t)
	stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
	operator := s.NewKey(t, s.Account, access.RoleOperator)
	id, none := string(job.ID), []string{}

	for name, c := range map[string]struct {
		caller jobs.Principal
		prefix string
		want   []string
	}{
		"a prefix":             {s.Client, id[:20], []string{id}},
		"without hyphens":      {s.Client, "job_" + strings.ReplaceAll(id[4:], "-", "")[:20], []string{id}},
		"in upper case":        {s.Client, strings.ToUpper(id[:20]), []string{id}},
		"the whole id":         {s.Client, id, []string{id}},
		"of another account":   {stranger, id[:20], none},
		"by an operator":       {operator, id[:20], []string{id}},
		"nothing like it":      {s.Client, "job_ffffff", none},
		"a worker":             {operator, string(worker.WorkerID)[:24], []string{string(worker.WorkerID)}},
		"a worker by a client": {s.Client, string(worker.WorkerID)[:24], none},
		"a key by an operator": {operator, "key_ffffff", none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := s.Reads.Directory.IDs(t.Context(), c.caller, c.prefix)

			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}

	for _, kind := range []string{"acc", "pol", "dead", "bulk", "whk", "whd", "key", "wrk", "alr", "sil", "mem", "job"} {
		for _, p := range []jobs.Principal{s.Client, operator, s.Admin} {
			found, err := s.Reads.Directory.IDs(t.Context(), p, kind+"_ffffff")
			require.NoError(t, err, kind)
			require.Empty(t, found, kind)
		}
	}

	for _, prefix := range []string{"", "job", "job_", "job_01937", "job_0193g7", "job_01937d3e1234", "video_01937d3e", "01937d3e",
		"job_' OR 1", id + "0", "job_0193-7d3e"} {
		_, err := s.Reads.Directory.IDs(t.Context(), s.Client, prefix)
		if prefix == "job_01937d3e1234" {
			require.NoError(t, err)
			continue
		}
		jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
	}
}

// The many ids of others neither hide those of an account, nor show that they are there.
func TestIDsBesideABusyAccount(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	busy := s.NewAccount(t, "busy", models.TierPro)
	s.Exec(t, `INSERT INTO workflows (id, account_id, name, status, nodes, open, request_digest, completed_at)
		SELECT ('01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ?, 'film', 'COMPLETED', 1, 0, '', now() FROM generate_series(1, 20001) n`, busy.ID)
	own := "01990000-ffff-7000-8000-000000000001"
	s.Exec(t, `INSERT INTO workflows (id, account_id, name, status, nodes, open, request_digest, completed_at)
		VALUES (?, ?, 'film', 'COMPLETED', 1, 0, '', now())`, own, s.Client.AccountID)

	got, err := s.Reads.Directory.IDs(t.Context(), s.Client, "wfl_019900")

	require.NoError(t, err)
	require.Equal(t, []string{"wfl_" + own}, got)
	none := s.NewKey(t, s.NewAccount(t, "none", models.TierPro), access.RoleClient)
	got, err = s.Reads.Directory.IDs(t.Context(), none, "wfl_019900")
	require.NoError(t, err)
	require.Empty(t, got)
}

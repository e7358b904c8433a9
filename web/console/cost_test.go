package console

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// cost enters a completed attempt of the account's first job, which ended so many days ago: useful and wasted dollars.
func (b *browser) cost(t *testing.T, user, model string, daysAgo int, useful, wasted any) {
	t.Helper()
	b.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
			useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
		VALUES ('ATTEMPT', now() - make_interval(days => ?), gen_random_uuid(), gen_random_uuid(), 1, ?, ?, 'video.generate', ?, 'l4-spot', 'gce',
			'europe-west4', 'l4', true, 3600, 360, ?4, ?5, ?4)`, daysAgo, b.Account.ID, user, model, useful, wasted)
}

func TestCostsPage(t *testing.T) {
	t.Parallel()

	b := operator(t)
	require.Contains(t, b.get(t, "/costs").Body, "No attempt ended in this time.")
	b.Exec(t, "UPDATE ledger_closing SET until = until - interval '40 days'")
	b.cost(t, "<script>alert(1)</script>", "ltx", 1, "1.25", "0.25")
	b.cost(t, "=cmd", "wan", 20, "2", "0")
	b.cost(t, "", "wan", 1, nil, nil)

	got := b.get(t, "/costs")
	require.Equal(t, http.StatusOK, got.Status)
	require.Regexp(t, `(?s)>Yesterday<.*accounts pay \$1\.25.*most: \$1\.50.*Per video`, got.Body)
	require.Contains(t, got.Body, b.Account.Name)
	require.Contains(t, got.Body, "1 entry in the ledger without an amount")
	users := b.get(t, "/costs?time=30d&by=user").Body
	require.NotContains(t, users, "<script>alert")
	require.Contains(t, users, "$3.50")
	require.Contains(t, b.get(t, "/costs?time=coffee&by=tea").Body, b.Account.Name, "the defaults")

	file := b.get(t, "/costs.csv?time=30d&by=user")
	require.Equal(t, http.StatusOK, file.Status)
	require.Contains(t, file.Body, "'=cmd,'=cmd,1,1,1,3600.000,360.000,2,2,0,2,0")
	require.Contains(t, file.Body, ",(total),3,3,3,10800.000,1080.000,3.25,3.5,0.25")
}

func TestBudgetsPage(t *testing.T) {
	t.Parallel()

	b := operator(t)
	require.Contains(t, b.get(t, "/budgets").Body, "No account has a budget")
	form := func(values url.Values) url.Values {
		for name, value := range map[string]string{"account": b.Account.Name, "of": "account", "period": "MONTH", "limitUsd": "12.50"} {
			if !values.Has(name) {
				values.Set(name, value)
			}
		}
		return values
	}
	for message, wrong := range map[string]url.Values{
		"This must be a number":            {"limitUsd": {"ten"}},
		"must be from 0 to":                {"limitUsd": {"-1"}},
		"at most ten decimals":             {"limitUsd": {"0.00000000001"}},
		"period must be DAY or MONTH":      {"period": {"YEAR"}},
		"No account has the name":          {"account": {"nobody"}},
		"Give the user":                    {"of": {"user"}},
		"atLimit must be WAIT or CANCEL":   {"atLimit": {"STOP"}},
		"unknown must be REFUSE or ALLOW.": {"unknown": {"?"}},
	} {
		got := b.post(t, "/budgets/set", form(wrong))
		require.Equal(t, http.StatusUnprocessableEntity, got.Status, message)
		require.Contains(t, got.Body, message)
	}
	require.Zero(t, b.Count(t, "budgets"))

	b.post(t, "/budgets/set", form(url.Values{}))
	b.post(t, "/budgets/set", form(url.Values{"of": {"each"}, "period": {"DAY"}, "limitUsd": {"1"}, "kind": {"soft"}}))
	b.post(t, "/budgets/set", form(url.Values{"of": {"user"}, "userId": {"<script>ann"}, "limitUsd": {"3"}, "atLimit": {"CANCEL"}}))
	b.Exec(t, "INSERT INTO purse_entries (account_id, user_id, at, spent_usd, reserved_usd) VALUES (?, 'bob', now(), 10, 1)", b.Account.ID)
	page := b.get(t, "/budgets").Body
	require.Regexp(t, `(?s)the account.*\$12\.50.*\$10.*\$1\.00.*refuses submits, lets jobs wait`, page)
	require.Regexp(t, `(?s)each user.*only notifies.*user bob`, page)
	require.Contains(t, page, "refuses submits, cancels waiting jobs")
	require.NotContains(t, page, "<script>ann")

	action := regexp.MustCompile(`/budgets/bud_[0-9a-f-]+/remove`).FindString(page)
	b.post(t, action, nil)
	require.Equal(t, 2, b.Count(t, "budgets"))
}

package graph_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestBudgets(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	completed(t, a) // it cost $3
	const fields = `{ id scope userId period limitUsd hard atLimit unknown account { id } use { userId spentUsd reservedUsd leftUsd percent } }`

	data := a.as(t, access.RoleOperator, `mutation ($id: ID!) { updateAccount(id: $id, input: {monthlyBudgetUsd: 5.25, timeZone: "Europe/Berlin"}) {
		timeZone monthlyBudgetUsd spentThisMonthUsd } }`, map[string]any{"id": a.Account.ID})
	account := at[map[string]any](t, data, "updateAccount")
	require.Equal(t, "Europe/Berlin", account["timeZone"])
	require.InDelta(t, 5.25, account["monthlyBudgetUsd"], 0)
	require.InDelta(t, 3, account["spentThisMonthUsd"], 0.1)

	data = a.as(t, access.RoleOperator, `mutation ($id: ID!) { setBudget(input: {accountId: $id, eachUser: true, period: DAY, limitUsd: 1, soft: true}) `+fields+` }`,
		map[string]any{"id": a.Account.ID})
	set := at[map[string]any](t, data, "setBudget")
	require.Equal(t, "EACH_USER", set["scope"])
	require.Equal(t, false, set["hard"])
	require.Nil(t, set["userId"])

	all := at[[]any](t, a.as(t, access.RoleClient, "{ budgets "+fields+" }", nil), "budgets")
	require.Len(t, all, 2)
	use := at[map[string]any](t, all[0].(map[string]any), "use", 0)
	require.InDelta(t, 3, use["spentUsd"], 0.1)
	require.InDelta(t, 57.1, use["percent"], 2)

	data = a.as(t, access.RoleOperator, `mutation ($id: ID!) { removeBudget(id: $id) }`, map[string]any{"id": set["id"]})
	require.Equal(t, set["id"], data["removeBudget"])
	for code, call := range map[string]string{
		"INVALID_INPUT": fmt.Sprintf(`mutation { updateAccount(id: %q, input: {timeZone: "Mars/Base"}) { id } }`, a.Account.ID),
		"NOT_FOUND":     `mutation { removeBudget(id: "bud_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11") }`,
	} {
		require.Equal(t, []string{code}, ask(t, a.url, a.Secrets[access.RoleOperator], call, nil).codes())
	}
	for _, limit := range []string{"-1", "1e300", "0.000000000001"} {
		require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleOperator], fmt.Sprintf(
			`mutation { setBudget(input: {accountId: %q, period: DAY, limitUsd: %s}) { id } }`, a.Account.ID, limit), nil).codes())
	}
}

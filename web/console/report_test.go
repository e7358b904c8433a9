package console

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReportsPage(t *testing.T) {
	t.Parallel()

	b := operator(t)
	empty := b.get(t, "/system/reports").Body
	require.Contains(t, empty, "No dead letter is open.")
	require.Contains(t, empty, "No attempt ended in this time.")
	b.cost(t, "ann", "ltx", 0, "1.25", "0.25")
	b.Submit(t)

	got := b.get(t, "/system/reports?days=30")

	require.Equal(t, http.StatusOK, got.Status)
	require.Regexp(t, `(?s)l4-spot.*Finished jobs.*180 days`, got.Body)
	require.NotContains(t, got.Body, "No job waits in a queue.")
	file := b.get(t, "/system/reports.csv?report=flakiness&days=30")
	require.Contains(t, file.Body, "pool,l4-spot,1,1,0,1.000,0.000,360.000")
	require.Contains(t, b.get(t, "/system/reports.csv?report=coffee").Body, "failure_class", "the default")
	require.Equal(t, http.StatusOK, b.get(t, "/system/reports?days=coffee").Status, "the default")
}

func TestStatementPage(t *testing.T) {
	t.Parallel()

	b := operator(t)
	b.cost(t, "ann", "ltx", 0, "1.25", "0.25")
	list := b.get(t, "/costs?time=month&by=account").Body
	_, rest, linked := strings.Cut(list, `href="/costs/statement`)
	require.True(t, linked)
	address, _, _ := strings.Cut(rest, `"`)

	got := b.get(t, "/costs/statement"+html.UnescapeString(address))

	require.Equal(t, http.StatusOK, got.Status)
	require.Contains(t, got.Body, "Statement of "+b.Account.Name)
	require.Contains(t, got.Body, "$1.25")
	require.NotContains(t, got.Body, "<nav")
	require.Contains(t, b.get(t, "/costs/statement"+html.UnescapeString(address)+"&format=csv").Body, ",total,,1,1,3600.000,1.25,0")
	require.Equal(t, http.StatusNotFound, b.get(t, "/costs/statement?month=2026-10&account=acc_1").Status)
	require.NotEqual(t, http.StatusOK, b.get(t, "/costs/statement"+html.UnescapeString(address)+"0").Status)
}

package graph_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// TestScheduleInput gives inputs that cannot be meant. Each refusal names the field, and says what
// to do.
func TestScheduleInput(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	type input = map[string]any
	create := func(more input) answer {
		in := input{"name": "news", "cron": "0 9 * * *", "job": input{"model": "testcard", "prompt": "x"}}
		maps.Copy(in, more)
		return ask(t, a.url, a.Secrets[access.RoleClient], `mutation($in: ScheduleInput!) { createSchedule(input: $in) { id } }`, input{"in": in})
	}
	far := time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		in   input
		says string
	}{
		"61 minutes": {input{"cron": "61 * * * *"},
			`cron: The cron expression is not valid: the minute "61" is not allowed: it takes 0-59`},
		"30 February": {input{"cron": "0 0 30 2 *"},
			"cron: The cron expression is not valid: no day within five years matches it: check the day and the month"},
		"an empty field":     {input{"cron": "0 9 , * *"}, `cron: The cron expression is not valid: the day of the month "," is not allowed`},
		"an empty list item": {input{"cron": "0,,5 * * * *"}, `cron: The cron expression is not valid: the minute "0,,5" is not allowed`},
		"four fields":        {input{"cron": "0 9 * *"}, "cron: The cron expression is not valid: it has 4 fields: give five"},
		"only spaces":        {input{"cron": "   "}, "cron: The cron expression is not valid: it is empty: give five fields"},
		"no cron":            {input{"cron": ""}, "cron: Give either a cron expression or an interval"},
		"both":               {input{"everySeconds": 5}, "cron: Give either a cron expression or an interval, and not both"},
		"a kilobyte of commas": {input{"cron": strings.Repeat(",", 1024)},
			"cron: The cron expression is not valid: it has 1024 bytes; at most 256 are allowed"},
		"a zone's prefix": {input{"cron": "CRON_TZ=Europe/Berlin 0 9 * * *"},
			"cron: The cron expression is not valid: an expression has no zone: give the zone in timezone"},
		"an unknown zone": {input{"timezone": "Europe/Atlantis"},
			`timezone: "Europe/Atlantis" is no time zone of the IANA database: use a name such as Europe/Berlin`},
		"an offset": {input{"timezone": "+02:00"},
			`timezone: "+02:00" is no time zone of the IANA database: use a name such as Europe/Berlin or UTC. A fixed offset has a name, too: Etc/GMT-2`},
		"the machine's zone":  {input{"timezone": "localtime"}, `timezone: "localtime" is no time zone`},
		"another machine's":   {input{"timezone": "posixrules"}, `timezone: "posixrules" is no time zone`},
		"an end before start": {input{"startAt": far, "endAt": "2026-01-01T00:00:00Z"}, "endAt: endAt must be after the start"},
		"a window of no slot": {input{"cron": "0 0 29 2 *", "startAt": "2029-03-01T00:00:00Z", "endAt": "2030-03-01T00:00:00Z"},
			"endAt: The schedule would never fire"},
		"a start long ago": {input{"cron": "", "everySeconds": 1, "startAt": "1500-01-01T00:00:00Z"},
			"startAt: startAt must be within 10 years of now; it is 1 Jan 1500 00:00 UTC. Leave it out"},
		"a start in the future": {input{"startAt": "9999-12-31T23:59:59-23:59"}, "startAt: startAt must be within 10 years of now"},
		"a model that is none":  {input{"job": input{"model": "none", "prompt": "x"}}, "job.model: "},
	} {
		refused := create(c.in).Errors
		require.Len(t, refused, 1, name)
		require.Equal(t, "INVALID_INPUT", refused[0].Extensions["code"], name)
		field, _ := refused[0].Extensions["field"].(string)
		require.Contains(t, field+": "+refused[0].Message, c.says, name)
	}
	nameless := ask(t, a.url, a.Secrets[access.RoleClient], `mutation($in: ScheduleInput!) { applySchedule(input: $in) { id } }`,
		input{"in": input{"name": "a\x00b", "cron": "0 9 * * *", "job": input{"model": "testcard", "prompt": "x"}}})
	require.Contains(t, nameless.Errors[0].Message, "The name must have 1 to 100 printable characters")
	require.Zero(t, a.Count(t, "schedules"))

	// A million slots are counted up to the limit, and none is written.
	made := at[string](t, create(input{"cron": "* * * * * *"}).Data, "createSchedule", "id")
	const backfill = `mutation($id: ID!) { fireSlots(id: $id, from: "2026-01-01T00:00:00Z", to: "2026-01-12T13:46:40Z", maxFires: 1000) { at } }`
	refused := ask(t, a.url, a.Secrets[access.RoleClient], backfill, input{"id": made}).Errors
	require.Len(t, refused, 1)
	require.Equal(t, "There are more than 1000 slots between these times. Nothing was fired: choose a shorter time, or a higher maxFires (at most 1000).", refused[0].Message)
	require.Equal(t, "maxFires", refused[0].Extensions["field"])
	require.Zero(t, a.Count(t, "schedule_slots"))
}

func TestSlotUsage(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	type object = map[string]any
	const make = `mutation($in: ScheduleInput!) { createSchedule(input: $in) { account { slotUsage { perMinute } } } }`
	made := ask(t, a.url, a.Secrets[access.RoleClient], make,
		object{"in": object{"name": "news", "everySeconds": 2, "job": object{"model": "testcard", "prompt": "x"}}})
	require.Empty(t, made.Errors)
	require.InDelta(t, 30, at[float64](t, made.Data, "createSchedule", "account", "slotUsage", "perMinute"), 0.5)
	stranger := a.NewKey(t, a.NewAccount(t, "other", models.TierFree), access.RoleClient)
	critical := a.NewAccount(t, "house", models.TierCritical)

	own := ask(t, a.url, a.Secrets[access.RoleClient], `{ viewer { account { slotUsage { perMinute maxPerMinute waiting maxWaiting } } } }`,
		nil)
	theirs := ask(t, a.url, a.Secrets[access.RoleOperator],
		`{ accounts { edges { node { id slotUsage { perMinute maxPerMinute waiting maxWaiting } } } } }`, nil)

	require.Equal(t, object{"perMinute": 30.0, "maxPerMinute": 3000.0, "waiting": 0.0, "maxWaiting": 6000.0},
		at[object](t, own.Data, "viewer", "account", "slotUsage"))
	found := object{}
	for _, edge := range at[[]any](t, theirs.Data, "accounts", "edges") {
		found[at[string](t, edge.(object), "node", "id")] = at[object](t, edge.(object), "node", "slotUsage")
	}
	require.Equal(t, object{"perMinute": 30.0, "maxPerMinute": 3000.0, "waiting": 0.0, "maxWaiting": 6000.0}, found[string(a.Account.ID)])
	require.Equal(t, object{"perMinute": 0.0, "maxPerMinute": 60.0, "waiting": 0.0, "maxWaiting": 1000.0}, found[string(stranger.AccountID)])
	require.Equal(t, object{"perMinute": 0.0, "maxPerMinute": nil, "waiting": 0.0, "maxWaiting": nil}, found[string(critical.ID)])
}

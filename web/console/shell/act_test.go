package shell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestActLine(t *testing.T) {
	t.Parallel()

	const id = "acc_0198b3a0-0000-7000-8000-000080746054"
	for line, want := range map[string]actLine{
		"maxRunning: 3 → 5":           {"max running", []actPart{{Text: "3 → 5"}}},
		"limits.maxQueued: 3":         {"limits, max queued", []actPart{{Text: "3"}}},
		"DATABASE_URL: (set) → none":  {"DATABASE_URL", []actPart{{Text: "(set) → none"}}},
		"settings changed":            {"", []actPart{{Text: "settings changed"}}},
		"reason: ticket: 4711":        {"reason", []actPart{{Text: "ticket: 4711"}}},
		"account: acme (" + id + ")":  {"account", []actPart{{Text: "acme (", ID: id}, {Text: ")"}}},
		"accounts: " + id + ", " + id: {"accounts", []actPart{{ID: id}, {Text: ", ", ID: id}, {}}},
		"reason: a\u202egnp.exe":      {"reason", []actPart{{Text: "a[U+202E]gnp.exe"}}},
	} {
		require.Equal(t, want, readActLine(line), line)
	}
}

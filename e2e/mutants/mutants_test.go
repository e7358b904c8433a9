package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMutants(t *testing.T) {
	t.Parallel()

	t.Run("StillApply", func(t *testing.T) {
		t.Parallel()

		mutants, err := readMutants(".", nil)

		require.NoError(t, err)
		require.GreaterOrEqual(t, len(mutants), 12)
		for _, m := range mutants {
			cmd := exec.Command("git", "apply", "--check", "-C1", m.patch)
			cmd.Dir = "../.."
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: make the patch again: %s", m.name, out)
		}
	})

	t.Run("SayWhatTheyBreakAndWhoMustNotice", func(t *testing.T) {
		t.Parallel()

		m, err := readMutant("What: it breaks\nTest: ./jobs TestA|TestB\n\n--- a/x\n")
		require.NoError(t, err)
		require.Equal(t, mutant{what: "it breaks", pkg: "./jobs", tests: "TestA|TestB"}, m)

		for _, text := range []string{"", "What: it breaks\n", "Test: ./jobs TestA\n", "What: it breaks\nTest: ./jobs\n"} {
			_, err := readMutant(text)
			require.ErrorContains(t, err, "What: …", text)
		}
	})
}

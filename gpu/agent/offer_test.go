package agent

import (
	"testing"
	"testing/synctest"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/stretchr/testify/require"
)

func TestModelsWithoutTheirProgram(t *testing.T) {
	t.Parallel()

	programs := func(c *control, _ *model) {
		list := []object{
			{"model": "gone", "program": "reelay-none", "install": "Install none."}, {"model": "there", "program": "true", "install": nil},
			{"model": "other", "program": "reelay-none", "install": nil},
		}
		c.answers["modelPrograms"] = func(object) (object, client.Code) { return object{"list": list}, "" }
	}
	serving := func(models ...string) func(*Config) {
		return func(c *Config) {
			c.Models, c.Runtimes = models, []host.Command{{Name: "command", Command: []string{"scripted"}, BuiltIn: true}}
		}
	}

	t.Run("AreNotOffered", func(t *testing.T) {
		t.Parallel()
		story(t, programs, func(t *testing.T, f *fixture) {
			synctest.Wait()

			require.Equal(t, []any{"there"}, f.of("registerWorker")[0].in["models"])
			require.Contains(t, f.log.String(), "Install none.")
		}, serving("gone", "there"))
	})

	t.Run("EndAnAgentThatHasNoOther", func(t *testing.T) {
		t.Parallel()
		story(t, programs, func(t *testing.T, f *fixture) {
			require.ErrorContains(t, <-f.ended, "none of the models of --models: gone needs the program reelay-none")
			require.Empty(t, f.of("registerWorker"))
		}, serving("gone"))
	})

	t.Run("AreOfferedIfTheAPIIsOlder", func(t *testing.T) {
		t.Parallel()
		older := func(c *control, _ *model) {
			c.answers["modelPrograms"] = func(object) (object, client.Code) { return nil, "GRAPHQL_VALIDATION_FAILED" }
		}
		story(t, older, func(t *testing.T, f *fixture) {
			synctest.Wait()

			require.Equal(t, []any{"gone", "there"}, f.of("registerWorker")[0].in["models"])
		}, serving("gone", "there"))
	})
}

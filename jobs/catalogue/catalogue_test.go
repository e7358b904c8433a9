package catalogue_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

func TestLoadCatalogue(t *testing.T) {
	t.Parallel()

	t.Run("AddsTheModelsOfAFolder", func(t *testing.T) {
		t.Parallel()

		added, err := catalogue.Load(folder(`[{"name": "own", "type": "own", "gpuTypes": ["any"], "timeoutSeconds": 600, "gpuSecondsPerSecond": 1}]`))
		require.NoError(t, err)

		own, err := added.Model("own")
		require.NoError(t, err)
		require.True(t, own.Takes("payload"))
		require.False(t, own.RequiresVideo)
		_, err = added.Model("testcard")
		require.NoError(t, err)
	})

	for name, test := range map[string]struct{ models, complaint string }{
		"RefusesANameThatIsTaken":      {`[{"name": "drill", "type": "own", "gpuTypes": ["any"], "timeoutSeconds": 600, "gpuSecondsPerSecond": 1}]`, "another model of that name"},
		"RefusesAModelWithoutAName":    {`[{"type": "own"}]`, "it needs a name and a type"},
		"RefusesAModelWithoutGPUTypes": {`[{"name": "own", "type": "own"}]`, "gpuTypes is empty"},
		"RefusesATimeoutOfZero":        {`[{"name": "own", "type": "own", "gpuTypes": ["any"], "gpuSecondsPerSecond": 1}]`, "must be positive"},
		"RefusesAModelWithoutASchema":  {`[{"name": "other", "type": "own", "gpuTypes": ["any"], "timeoutSeconds": 600, "gpuSecondsPerSecond": 1}]`, "other.schema.json"},
		"RefusesInvalidJSON":           {`{`, "models.json: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := catalogue.Load(folder(test.models))

			require.ErrorContains(t, err, "read the model catalogue")
			require.ErrorContains(t, err, test.complaint)
		})
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()

	t.Run("LeavesASnapshotAsItWas", func(t *testing.T) {
		t.Parallel()

		c := catalogue.Of(catalogue.New(&catalogue.Model{Name: "old"}))
		begun := c.Current()
		c.Replace(catalogue.New(&catalogue.Model{Name: "new"}))

		_, err := begun.Model("old")
		require.NoError(t, err)
		_, err = c.Current().Model("old")
		require.ErrorContains(t, err, "there is new")
	})
}

// folder is a folder with a list of models and the schema of the model own.
func folder(models string) fs.FS {
	return fstest.MapFS{
		"models.json":     {Data: []byte(models)},
		"own.schema.json": {Data: []byte(`{"type": "object", "properties": {"payload": {"type": "string"}}}`)},
	}
}

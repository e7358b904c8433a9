package bench

import (
	"embed"
	"io/fs"
)

//go:embed models
var modelFiles embed.FS

// Models returns the folder of the models that only measurements use, in the form that
// REELAY_MODELS needs.
func Models() fs.FS {
	models, err := fs.Sub(modelFiles, "models")
	if err != nil {
		panic(err) // unreachable: the folder is embedded
	}
	return models
}

package bench

import (
	"embed"
	"io/fs"
)

//go:embed models
var modelFiles embed.FS

// Models is the folder of the models that only measurements use, as REELAY_MODELS
// takes it.
func Models() fs.FS {
	models, err := fs.Sub(modelFiles, "models")
	if err != nil {
		panic(err) // it is embedded
	}
	return models
}

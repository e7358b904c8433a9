// Package diffusers has the catalogue's entry of the example model of the diffusers runtime.
// The runtime itself is the Python package in this folder.
package diffusers

import (
	"bytes"
	_ "embed"
	"strconv"
)

//go:embed examples/models.yaml
var example []byte

// exampleWeights is the folder of the weights in the example.
const exampleWeights = `"/tmp/tiny-ltx"`

// TinyModels returns a catalogue with the model tiny-ltx: examples/models.yaml, with another
// folder of weights. `python3 -m reelay_diffusers.tiny` makes them.
func TinyModels(weights string) []byte {
	return bytes.Replace(example, []byte(exampleWeights), []byte(strconv.Quote(weights)), 1)
}

package transport

import (
	"bytes"
	"encoding/json"
)

// marshal returns the JSON of a value. Unlike json.Marshal it leaves <, > and & as they
// are, so that links can be copied from an answer with tools that do not know JSON.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

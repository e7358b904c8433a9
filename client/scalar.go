package client

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// unmarshalInt64 reads the Int64 scalar. The API writes it as a number below 2^53, and
// as a string from there on.
func unmarshalInt64(b []byte, v *int64) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a 64-bit integer", b)
	}
	*v = n
	return nil
}

// marshalInt64 writes the Int64 scalar; see unmarshalInt64.
func marshalInt64(v *int64) ([]byte, error) {
	if *v > 1<<53-1 || *v < -(1<<53-1) {
		return json.Marshal(strconv.FormatInt(*v, 10))
	}
	return json.Marshal(*v)
}

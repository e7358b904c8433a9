package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/reelay/reelay/internal/wellformed"
)

// MaxDepth is the maximum number of nested objects and lists in a runtime's JSON. The request
// that carries it to the control plane adds a few.
const MaxDepth = wellformed.MaxDepth - requestDepth

const requestDepth = 8

// CheckJSON returns an error unless the control plane can store raw, a JSON value of a runtime
// that takes at most most bytes in the request. The error continues a sentence about the value.
func CheckJSON(raw json.RawMessage, most int) error {
	if len(raw) == 0 {
		return nil
	}
	var duplicate *wellformed.DuplicateError
	nested := strings.Repeat("[", requestDepth) + string(raw) + strings.Repeat("]", requestDepth)
	switch err := wellformed.JSON([]byte(nested)); {
	case errors.Is(err, wellformed.ErrTooDeep):
		return fmt.Errorf("is nested deeper than %d levels", MaxDepth)
	case errors.As(err, &duplicate):
		return errors.New("has an object with a repeated key")
	case err != nil:
		return fmt.Errorf("cannot be stored: %w", err)
	case wellformed.HasNUL(raw):
		return errors.New("has a NUL character")
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return errors.New("has a number that is out of range")
	}
	encoded, err := json.Marshal(raw)
	if err != nil {
		return err
	}
	if len(encoded) > most {
		return fmt.Errorf("takes %d bytes; at most %d are allowed", len(encoded), most)
	}
	return nil
}

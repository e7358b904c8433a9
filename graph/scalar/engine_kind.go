package scalar

import (
	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/internal/engine"
)

// MarshalEngineKind writes the kind of an engine.
func MarshalEngineKind(kind engine.Kind) graphql.Marshaler {
	return graphql.MarshalString(string(kind))
}

// UnmarshalEngineKind reads a text. Whether there is such a kind is for the one who uses it.
func UnmarshalEngineKind(v any) (engine.Kind, error) {
	s, ok := v.(string)
	if !ok {
		return "", MustBeString
	}
	return engine.Kind(s), nil
}

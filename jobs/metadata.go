package jobs

import (
	"bytes"
	"encoding/json"
)

// What metadata may be. It is for a few words of the caller's own: they are looked
// for, shown, and read by programs in other languages.
const (
	maxMetadataBytes     = 16 << 10
	maxMetadataKeys      = 64
	maxMetadataKeyBytes  = 128
	maxMetadataTextBytes = 4 << 10
	maxMetadataDepth     = 5
)

// validMetadata checks metadata and makes it canonical; null is none.
func (in *Submission) validMetadata() error {
	if len(in.Metadata) == 0 || bytes.Equal(in.Metadata, []byte("null")) {
		in.Metadata = nil
		return nil
	}
	value, err := readJSON("metadata", in.Metadata, maxMetadataBytes)
	if err != nil {
		return err
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return invalid("metadata", "metadata must be a JSON object.")
	}
	keys := 0
	if err := boundMetadata(fields, maxMetadataDepth, &keys); err != nil {
		return err
	}
	in.Metadata, err = json.Marshal(fields)
	return wrap(err, "encode metadata")
}

// scriptKey is the key that gives an object of JavaScript other methods when a
// program copies it key by key.
const scriptKey = "__proto__"

// boundMetadata checks a value that may have so many levels, and counts the keys
// of all its objects.
func boundMetadata(value any, depth int, keys *int) error {
	var inner []any
	switch v := value.(type) {
	case string:
		if len(v) > maxMetadataTextBytes {
			return invalid("metadata", "A text in metadata may take %d bytes; one takes %d.", maxMetadataTextBytes, len(v))
		}
		return nil
	case []any:
		inner = v
	case map[string]any:
		if *keys += len(v); *keys > maxMetadataKeys {
			return invalid("metadata", "metadata may have %d keys, those of inner objects among them; this has more.", maxMetadataKeys)
		}
		for key, item := range v {
			if err := validMetadataKey(key); err != nil {
				return err
			}
			inner = append(inner, item)
		}
	default:
		return nil
	}
	if depth == 0 {
		return invalid("metadata", "metadata is nested more than %d levels deep.", maxMetadataDepth)
	}
	for _, item := range inner {
		if err := boundMetadata(item, depth-1, keys); err != nil {
			return err
		}
	}
	return nil
}

func validMetadataKey(key string) error {
	switch {
	case key == scriptKey:
		return invalid("metadata", "metadata has the key %s, which programs in JavaScript would misread: name it otherwise.", scriptKey)
	case len(key) > maxMetadataKeyBytes:
		return invalid("metadata", "A key of metadata may take %d bytes; one takes %d.", maxMetadataKeyBytes, len(key))
	}
	return nil
}

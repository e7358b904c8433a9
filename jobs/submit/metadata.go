package submit

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/strictjson"
)

// Limits of metadata. It contains a few words of the caller's own, which are searched, displayed,
// and read by programs in other languages.
const (
	maxMetadataBytes     = 16 << 10
	MaxMetadataKeys      = 64
	MaxMetadataKeyBytes  = 128
	maxMetadataTextBytes = 4 << 10
	maxMetadataDepth     = 5
)

// validMetadata checks metadata and makes it canonical; null is none.
func (in *Submission) validMetadata() error {
	if len(in.Metadata) == 0 || bytes.Equal(in.Metadata, []byte("null")) {
		in.Metadata = nil
		return nil
	}
	value, err := strictjson.Read("metadata", in.Metadata, maxMetadataBytes)
	if err != nil {
		return err
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return apierror.Invalid("metadata", "metadata must be a JSON object.")
	}
	keys := 0
	if f := boundMetadata(fields, maxMetadataDepth, &keys); f != nil {
		return f.In("metadata")
	}
	if keys > MaxMetadataKeys {
		return apierror.Invalid("metadata", "metadata may have %d keys, those of inner objects among them; it has %d.", MaxMetadataKeys, keys)
	}
	in.Metadata, err = json.Marshal(fields)
	return apierror.Wrap(err, "encode metadata")
}

// scriptKey is a key that changes the methods of a JavaScript object when a program copies it
// key by key.
const scriptKey = "__proto__"

// boundMetadata checks a value that may have depth more levels, and counts the keys of all its
// objects.
func boundMetadata(value any, depth int, keys *int) *strictjson.Flaw {
	switch v := value.(type) {
	case string:
		if len(v) > maxMetadataTextBytes {
			return strictjson.Flawed("may take %d bytes, as each text in metadata; it takes %d.", maxMetadataTextBytes, len(v))
		}
	case []any:
		if depth == 0 {
			return errMetadataDepth
		}
		for i, item := range v {
			if f := boundMetadata(item, depth-1, keys); f != nil {
				return f.Of(strconv.Itoa(i))
			}
		}
	case map[string]any:
		if depth == 0 {
			return errMetadataDepth
		}
		*keys += len(v)
		for key, item := range v {
			if f := checkMetadataKey(key); f != nil {
				return f
			}
			if f := boundMetadata(item, depth-1, keys); f != nil {
				return f.Of(key)
			}
		}
	}
	return nil
}

var errMetadataDepth = strictjson.Flawed("is deeper than the %d levels that metadata may have.", maxMetadataDepth)

func checkMetadataKey(key string) *strictjson.Flaw {
	switch {
	case key == scriptKey:
		return strictjson.Flawed("is a key that programs in JavaScript would misread: name it otherwise.").Of(key)
	case len(key) > MaxMetadataKeyBytes:
		return strictjson.Flawed("has a key of %d bytes; one may take %d.", len(key), MaxMetadataKeyBytes)
	}
	return nil
}

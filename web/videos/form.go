package videos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/web/door"
)

const (
	// maxBody holds an image of maxFile as a data URL, and a prompt.
	maxBody = 30 << 20
	// maxFile bounds the image in a request.
	maxFile = 20 << 20

	maxParts     = 64
	maxKeyLength = 128
	maxKeyDepth  = 4
)

// fields is a request's body: each value a string, a json.Number, a bool, nil, a
// []any, a *file, or fields. In a multipart body every value but a file is a
// string.
type fields map[string]any

// file is a file in a request.
type file struct {
	contentType string
	data        []byte
}

// readFields reads a body of JSON or of multipart/form-data.
func (a *api) readFields(w http.ResponseWriter, c *call) (fields, error) {
	mediaType, options, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" && mediaType != "multipart/form-data" {
		return nil, door.UnsupportedMedia("Unsupported content type: send application/json or multipart/form-data.")
	}
	if c.ContentLength < 0 || c.ContentLength > httpguard.SmallBody {
		leave, ok := a.large.Enter(c.Context(), string(c.caller.AccountID))
		if !ok {
			return nil, apierror.ErrBusy
		}
		c.leave = leave
	}
	body := http.MaxBytesReader(w, c.Body, maxBody)
	if mediaType == "application/json" {
		return readJSON(body)
	}
	read, err := readMultipart(body, options["boundary"])
	if err == nil {
		read[formMark] = nil
	}
	return read, err
}

// formMark is in the fields of a multipart body. No field has this name: it is empty.
const formMark = ""

func readJSON(body io.Reader) (fields, error) {
	raw, err := door.ReadJSON(body)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil || tree == nil {
		return nil, invalid("invalid_json", "", "The body must be one JSON object.")
	}
	return asFields(tree), nil
}

func asFields(tree map[string]any) fields {
	for name, value := range tree {
		if sub, ok := value.(map[string]any); ok {
			tree[name] = asFields(sub)
		}
	}
	return tree
}

func readMultipart(body io.Reader, boundary string) (fields, error) {
	if boundary == "" {
		return nil, invalid("invalid_multipart", "", "The Content-Type has no boundary of the multipart body.")
	}
	parts := multipart.NewReader(body, boundary)
	tree := fields{}
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if err == io.EOF {
			return tree, nil
		}
		if err != nil {
			return nil, door.Unread(err)
		}
		if n == maxParts {
			return nil, invalid("invalid_multipart", "", "The multipart body has more than %d parts.", maxParts)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, door.Unread(err)
		}
		var value any = string(data)
		if part.FileName() != "" {
			value = &file{contentType: part.Header.Get("Content-Type"), data: data}
		}
		if err := tree.place(part.FormName(), value); err != nil {
			return nil, err
		}
	}
}

// place stores a value under its key: a[b][c] is c of b of a, and a[] is the next
// element of a.
func (f fields) place(key string, value any) error {
	path := splitKey(key)
	if path == nil {
		return invalid("invalid_parameter", "", "Invalid parameter name: '%s'.", door.Clip(key))
	}
	for _, name := range path[:len(path)-1] {
		name = f.next(name)
		if f[name] == nil {
			f[name] = fields{}
		}
		sub, ok := f[name].(fields)
		if !ok {
			return errTwice(key)
		}
		f = sub
	}
	name := f.next(path[len(path)-1])
	if _, taken := f[name]; taken {
		return errTwice(key)
	}
	f[name] = value
	return nil
}

// next returns the index of the next element of a list if the name is empty.
func (f fields) next(name string) string {
	if name == "" {
		return strconv.Itoa(len(f))
	}
	return name
}

func errTwice(key string) error { return door.Duplicate("The body", "parameter", key) }

// splitKey returns the parts of a key such as input_reference[file_id], or nil if it is
// malformed.
func splitKey(key string) []string {
	head, rest, nested := strings.Cut(key, "[")
	if head == "" || len(key) > maxKeyLength || strings.Contains(head, "]") {
		return nil
	}
	path := []string{head}
	for nested {
		var inside string
		var closed bool
		inside, rest, closed = strings.Cut(rest, "]")
		if !closed || strings.Contains(inside, "[") || len(path) == maxKeyDepth {
			return nil
		}
		path = append(path, inside)
		if rest == "" {
			break
		}
		if rest, nested = strings.CutPrefix(rest, "["); !nested {
			return nil
		}
	}
	return path
}

// only refuses fields with other names.
func (f fields) only(prefix string, known ...string) error {
	for name := range f {
		ok := name == formMark
		for _, each := range known {
			ok = ok || each == name
		}
		if !ok {
			hint := cmp.Or(text.DidYouMean(name, known), ".")
			return invalid("unknown_parameter", door.Clip(prefix+name), "Unknown parameter: '%s'%s", door.Clip(prefix+name), hint)
		}
	}
	return nil
}

// text returns a string, or "" if the field is absent or null.
func (f fields) text(name string) (string, error) {
	switch value := f[name].(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	default:
		return "", errType(name, "a string", value)
	}
}

// digits is text for a field that can also be a number.
func (f fields) digits(name string) (string, error) {
	if n, ok := f[name].(json.Number); ok {
		return n.String(), nil
	}
	return f.text(name)
}

func errType(param, want string, got any) error {
	return invalid("invalid_type", param, "Invalid type for '%s': expected %s, but got %s instead.", param, want, typeName(got))
}

func typeName(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case fields:
		return "an object"
	case *file:
		return "a file"
	}
	return "null"
}

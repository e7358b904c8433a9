// Package digest computes what is equal in two jobs of which one can have the result of the other.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/reelay/reelay/internal/strictjson"
	"github.com/reelay/reelay/jobs/catalogue"
)

// format is part of each digest. It changes if the digest is computed in another way.
const format = "reelay result 1"

// placeholder matches what stands for a value of another job's output in a text.
var placeholder = regexp.MustCompile(`\{\{job_[^{}]*\}\}`)

// reference stands in a digest for a file or a value, whose content is added by [WithContents]. No
// accepted text contains it: a placeholder must have the id of a job.
const reference = "{{job_}}"

// Of returns the digest of a request: SHA-256 of the JSON of the model's type, name and version, the
// prompt, and the params. The params are those of [catalogue.Model.Params], with the defaults filled in
// and the keys sorted. Of the files and values that they name only the places count; refs names them in
// their order. The digest is nil if equal requests make different results: the model takes a seed, and
// the params have none.
func Of(model *catalogue.Model, prompt string, params json.RawMessage) (digest []byte, refs []string) {
	w := walk{files: map[string]bool{}}
	for _, file := range model.Inputs(params) {
		w.files[file.Name] = true
	}
	request := []any{format, model.Type, model.Name, model.Version, w.text(prompt)}
	canonical, seeded := w.params(params)
	if canonical == nil || model.Takes("seed") && !seeded {
		return nil, nil
	}
	head, err := json.Marshal(request)
	if err != nil {
		return nil, nil // it consists of texts
	}
	sum := sha256.Sum256(slices.Concat(head, canonical))
	return sum[:], w.refs
}

// WithContents adds the contents of the files and values that a request names, in the order of its
// refs: the size and checksum of a file, with firstFrame or lastFrame if the job takes only that, and the
// text of a value.
func WithContents(digest []byte, contents []string) []byte {
	canonical, err := json.Marshal([]any{digest, contents})
	if err != nil {
		return nil // it consists of texts
	}
	sum := sha256.Sum256(canonical)
	return sum[:]
}

// walk makes the params of a request canonical, and collects what they name.
type walk struct {
	files map[string]bool
	refs  []string
}

// params returns canonical params with references and numbers in one form, and whether they have a
// seed. It returns nil if they are not an object.
func (w *walk) params(params json.RawMessage) (canonical []byte, seeded bool) {
	once := jsontext.AllowDuplicateNames(true) // there are none, so it need not look
	in := jsontext.NewDecoder(bytes.NewBuffer(params), once)
	var to bytes.Buffer
	out := jsontext.NewEncoder(&to, once)
	var name string // of the parameter
	if in.PeekKind() != '{' {
		return nil, false
	}
	for {
		token, err := in.ReadToken()
		if err == io.EOF {
			return to.Bytes(), seeded
		}
		if err != nil {
			return nil, false
		}
		kind, isKey := token.Kind(), isKey(in)
		switch {
		case isKey:
			if in.StackDepth() == 1 {
				name = token.String()
			}
			err = out.WriteToken(token)
		case kind == '0':
			err = out.WriteValue(jsontext.Value(number(json.Number(token.String()))))
		case kind == '"' && len(w.files) > 0 && w.files[place(in)]:
			w.refs = append(w.refs, token.String())
			err = out.WriteToken(jsontext.String(reference))
		case kind == '"':
			err = out.WriteToken(jsontext.String(w.text(token.String())))
		default:
			err = out.WriteToken(token)
		}
		if err != nil {
			return nil, false
		}
		seeded = seeded || name == "seed" && !isKey && kind != 'n'
	}
}

// isKey reports whether the token that was read last is the key of an object.
func isKey(in *jsontext.Decoder) bool {
	kind, n := in.StackIndex(in.StackDepth())
	return kind == '{' && n%2 == 1
}

// place returns where the token that was read last is, such as clips.0.
func place(in *jsontext.Decoder) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(in.StackPointer()), "/"), "/", ".")
}

func (w *walk) text(in string) string {
	if !strings.Contains(in, "{{job_") {
		return in
	}
	return placeholder.ReplaceAllStringFunc(in, func(match string) string {
		w.refs = append(w.refs, match[2:len(match)-2])
		return reference
	})
}

// number spells equal numbers in one way: 1, 1.0 and 1e0, and also 0.5 and 5e-1.
func number(n json.Number) json.Number {
	n = strictjson.CanonicalNumber(n)
	if !strings.ContainsAny(n.String(), ".eE") {
		return n
	}
	f, err := n.Float64()
	if err != nil {
		return n
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

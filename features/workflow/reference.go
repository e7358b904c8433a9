package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
)

// placeholder matches {{key.output}}. Other text in braces is left as it is.
var placeholder = regexp.MustCompile(`\{\{\s*([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+)\s*\}\}`)

// files are the outputs of a node that are files; a draft counts as one. Output, the other one, is JSON.
var files = []string{"video", "lastFrame", "firstFrame", "thumbnail", "draft"}

// use is what a placeholder names: the node's key, and which of its outputs, with the path in it.
type use struct {
	key, output string
}

// references finds and resolves the placeholders of a workflow's nodes.
type references struct {
	keys map[string]bool
}

// parse splits the text of a placeholder. A key can have dots: the longest one counts.
func (r references) parse(inside string) (u use, err error) {
	for end := strings.LastIndexByte(inside, '.'); end > 0; end = strings.LastIndexByte(inside[:end], '.') {
		if !r.keys[inside[:end]] {
			continue
		}
		u = use{inside[:end], inside[end+1:]}
		first, _, _ := strings.Cut(u.output, ".")
		if first != "output" && !slices.Contains(files, u.output) {
			return u, fmt.Errorf("{{%s}}: a node has the outputs video, lastFrame, firstFrame, thumbnail, draft and output", clip(inside))
		}
		return u, nil
	}
	return u, fmt.Errorf("{{%s}}: the workflow has no node of this name", clip(inside))
}

func clip(s string) string { return text.Clip(s, MaxKey) }

// replace replaces each placeholder of a text. whole is whether a file can stand there, which must
// then be the whole text.
func (r references) replace(s string, whole bool, with func(use) string) (string, error) {
	if !strings.Contains(s, "{{") {
		return s, nil
	}
	var failed error
	replaced := placeholder.ReplaceAllStringFunc(s, func(match string) string {
		u, err := r.parse(placeholder.FindStringSubmatch(match)[1])
		if err == nil && slices.Contains(files, u.output) && (!whole || match != s) {
			err = fmt.Errorf("%s names a file: it must be the whole value of a parameter that takes files", match)
		}
		if err != nil {
			failed = err
			return match
		}
		return with(u)
	})
	return replaced, failed
}

// walk replaces the placeholders of all strings in a JSON value.
func (r references) walk(value any, with func(use) string) (any, error) {
	var err error
	switch v := value.(type) {
	case string:
		return r.replace(v, true, with)
	case []any:
		for i := range v {
			if v[i], err = r.walk(v[i], with); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = r.walk(v[key], with); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// rewrite replaces the placeholders in the prompt and the params of a node.
func (r references) rewrite(n *Node, with func(use) string) (prompt string, params json.RawMessage, err error) {
	if prompt, err = r.replace(n.Job.Prompt, false, with); err != nil {
		return "", nil, apierror.Invalid("jobs."+n.Key+".job.prompt", "The prompt of the node %s: %s.", n.Key, err)
	}
	params = n.Job.Params
	if !bytes.Contains(params, []byte("{{")) {
		return prompt, params, nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return prompt, params, nil // the submit says what is wrong
	}
	value, err = r.walk(value, with)
	if err == nil {
		params, err = json.Marshal(value)
	}
	if err != nil {
		return "", nil, apierror.Invalid("jobs."+n.Key+".job.params", "The params of the node %s: %s.", n.Key, err)
	}
	return prompt, params, nil
}

// uses returns what a node uses of others.
func (r references) uses(n *Node) (used []use, err error) {
	_, _, err = r.rewrite(n, func(u use) string {
		used = append(used, u)
		return ""
	})
	return used, err
}

// named is how a request names an output of a job.
func (u use) named(job models.JobID) string {
	switch {
	case u.output == "video":
		return string(job)
	case slices.Contains(files, u.output):
		return string(job) + "." + u.output
	}
	return "{{" + string(job) + "." + u.output + "}}"
}

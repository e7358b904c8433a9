package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// placeholder matches what an argument can contain instead of text. Other braces, such as those
// of JSON, stay as they are.
var placeholder = regexp.MustCompile(`\{[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\}`)

// Values are what the placeholders of one job stand for. All paths are absolute.
type Values struct {
	// Params are the job's parameters, with numbers as json.Number.
	Params map[string]any
	Prompt string
	// Inputs maps the name of a parameter, or name.index for one of a list, to its file.
	Inputs map[string]string
	// Outputs maps the names of Settings.Outputs to their files.
	Outputs map[string]string
	Workdir string
	Job     string // the file with the whole job as JSON
	Reelay  string // this program
	// Lookup returns a variable of the worker's environment.
	Lookup func(name string) (string, bool)
}

// errAbsent means that a placeholder has no value.
type errAbsent string

func (e errAbsent) Error() string {
	return fmt.Sprintf("{%s} has no value: the program needs it", string(e))
}

// Fixed returns the name or path of the program if it is the same for every job and on every
// worker, or "" if it has placeholders.
func (s *Settings) Fixed() string {
	if len(s.Program) == 0 || s.Program[0].Group || len(s.Program[0].Words) != 1 || placeholder.MatchString(s.Program[0].Words[0]) {
		return ""
	}
	return s.Program[0].Words[0]
}

// Arguments returns the program and its arguments for a job. Its error is a sentence for the
// job's owner.
func (s *Settings) Arguments(v Values) ([]string, error) {
	var all []string
	for _, argument := range s.Program {
		words, err := v.words(argument.Words)
		var absent errAbsent
		if argument.Group && errors.As(err, &absent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, words...)
	}
	return all, nil
}

// Variables returns the values of Env as NAME=value, sorted by name.
func (s *Settings) Variables(v Values) ([]string, error) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value, err := v.replace(s.Env[name])
		if err != nil {
			return nil, fmt.Errorf("the variable %s: %w", name, err)
		}
		all = append(all, name+"="+value)
	}
	return all, nil
}

func (v Values) words(templates []string) ([]string, error) {
	var all []string
	for _, template := range templates {
		if list, several := v.list(template); several {
			if len(list) == 0 {
				return nil, errAbsent(template[1 : len(template)-1])
			}
			for _, one := range list {
				if err := v.checkArgument(template, one); err != nil {
					return nil, err
				}
			}
			all = append(all, list...)
			continue
		}
		word, err := v.replace(template)
		if err != nil {
			return nil, err
		}
		if err := v.checkArgument(template, word); err != nil {
			return nil, err
		}
		all = append(all, word)
	}
	return all, nil
}

// list returns the values of an argument that is exactly the placeholder of a list.
func (v Values) list(template string) (values []string, several bool) {
	if whole := placeholder.FindString(template); whole != template || whole == "" {
		return nil, false
	}
	root, name, _ := strings.Cut(template[1:len(template)-1], ".")
	given, isList := v.Params[name].([]any)
	if !isList {
		return nil, false
	}
	for i, one := range given {
		switch root {
		case "params":
			text, ok := scalar(one)
			if !ok {
				return nil, false
			}
			values = append(values, text)
		case "inputs":
			values = append(values, v.Inputs[name+"."+strconv.Itoa(i)])
		default:
			return nil, false
		}
	}
	return values, true
}

// checkArgument refuses an argument that a customer's text has turned into an option, and one that
// no program can be given.
func (v Values) checkArgument(template, word string) error {
	if strings.ContainsRune(word, 0) {
		return errors.New("a text contains a zero byte, which no program can be given")
	}
	at := placeholder.FindStringIndex(template)
	if at == nil || at[0] != 0 || !strings.HasPrefix(word, "-") {
		return nil
	}
	name := template[1 : at[1]-1]
	if param, ok := strings.CutPrefix(name, "params."); ok {
		if _, number := v.Params[param].(json.Number); number {
			return nil
		}
	}
	return fmt.Errorf("%s begins with a hyphen, which the program would read as an option: begin it with another character", name)
}

// replace fills in the placeholders of a text.
func (v Values) replace(template string) (string, error) {
	var failed error
	text := placeholder.ReplaceAllStringFunc(template, func(found string) string {
		value, err := v.value(found[1 : len(found)-1])
		if failed == nil {
			failed = err
		}
		return value
	})
	return text, failed
}

func (v Values) value(name string) (string, error) {
	root, rest, _ := strings.Cut(name, ".")
	found, ok := "", false
	switch root {
	case "params":
		given, exists := v.Params[rest]
		if !exists || given == nil {
			break
		}
		if found, ok = scalar(given); !ok {
			return "", fmt.Errorf("{%s} is a list or an object: it must stand alone as an argument, and contain texts and numbers only", name)
		}
	case "inputs":
		found, ok = v.Inputs[rest]
	case "outputs":
		found, ok = v.Outputs[rest]
	case "env":
		if found, ok = v.Lookup(rest); !ok {
			return "", fmt.Errorf("the worker's environment has no variable %s: set it where the agent is started", rest)
		}
	case "prompt":
		found, ok = v.Prompt, v.Prompt != ""
	case "workdir":
		found, ok = v.Workdir, true
	case "job":
		found, ok = v.Job, true
	case "reelay":
		found, ok = v.Reelay, true
	}
	if !ok {
		return "", errAbsent(name)
	}
	return found, nil
}

// scalar returns a text, number or truth value as a program reads it.
func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

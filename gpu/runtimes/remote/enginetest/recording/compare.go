package recording

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Read reads a file of recordings.
func Read(path string) ([]Exchange, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var exchanges []Exchange
	return exchanges, json.Unmarshal(text, &exchanges)
}

// Write writes a file of recordings.
func Write(path string, exchanges []Exchange) error {
	text, err := json.MarshalIndent(exchanges, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Compare returns what is different: a status, a header, a key, a type, or a word that clients decide by.
func Compare(recorded, got []Exchange) []string {
	var differences []string
	for i := range max(len(recorded), len(got)) {
		if i >= len(recorded) || i >= len(got) || recorded[i].Name != got[i].Name {
			return append(differences, fmt.Sprintf("exchange %d has another name, or is missing: record again", i))
		}
		r, g := recorded[i], got[i]
		name := fmt.Sprintf("%s (%s %s)", r.Name, r.Method, r.Path)
		if r.Status != g.Status {
			differences = append(differences, fmt.Sprintf("%s: status %d, recorded %d: %.300s", name, g.Status, r.Status, g.Answer))
			continue
		}
		for key, value := range r.AnswerHeader {
			if g.AnswerHeader[key] != value {
				differences = append(differences, fmt.Sprintf("%s: header %s is %q, recorded %q", name, key, g.AnswerHeader[key], value))
			}
		}
		var wanted, answer any
		if r.Answer != nil && g.Answer != nil {
			_ = json.Unmarshal(r.Answer, &wanted) // both were written by a Recorder
			_ = json.Unmarshal(g.Answer, &answer)
		}
		if r.Method == "EVENTS" {
			wanted, answer = firsts(wanted), firsts(answer)
		}
		for _, d := range shape("", wanted, answer) {
			differences = append(differences, name+": "+d)
		}
	}
	return differences
}

// firsts returns the first event of each type, in their order: how many follow is a matter of time.
func firsts(events any) any {
	var seen []string
	var first []any
	list, _ := events.([]any)
	for _, event := range list {
		object, _ := event.(map[string]any)
		kind, _ := object["type"].(string)
		if !slices.Contains(seen, kind) {
			seen, first = append(seen, kind), append(first, event)
		}
	}
	return first
}

// words are the keys of texts that clients decide by, or show.
var words = strings.Fields("status status_str completed type object deleted detail filename subfolder exception_type message " +
	"exception_message error class_type image_type name id state has_more msg")

func shape(at string, wanted, got any) []string {
	if fmt.Sprintf("%T", wanted) != fmt.Sprintf("%T", got) {
		return []string{fmt.Sprintf("%s is %.100v (%T), recorded %.100v (%T)", at, got, got, wanted, wanted)}
	}
	var differences []string
	switch wanted := wanted.(type) {
	case map[string]any:
		got := got.(map[string]any)
		for _, key := range keys(wanted) {
			if _, ok := got[key]; !ok {
				differences = append(differences, at+"."+key+" is missing")
				continue
			}
			differences = append(differences, shape(at+"."+key, wanted[key], got[key])...)
		}
		for _, key := range keys(got) {
			if _, ok := wanted[key]; !ok {
				differences = append(differences, at+"."+key+" was not recorded")
			}
		}
	case []any:
		got := got.([]any)
		if len(wanted) != len(got) {
			return []string{fmt.Sprintf("%s has %d elements, recorded %d", at, len(got), len(wanted))}
		}
		for i := range wanted {
			differences = append(differences, shape(fmt.Sprintf("%s[%d]", at, i), wanted[i], got[i])...)
		}
	default:
		key := at[strings.LastIndex(at, ".")+1:]
		if slices.Contains(words, key) && fmt.Sprint(wanted) != fmt.Sprint(got) {
			return []string{fmt.Sprintf("%s is %q, recorded %q", at, got, wanted)}
		}
	}
	return differences
}

package provider

import (
	"fmt"
	"math"
	"strings"

	"github.com/tidwall/gjson"
)

// maxRef bounds the id of a job at a provider, in bytes.
const maxRef = 1000

// ReadRef reads the id of a job from the answer to its submit. It reports false if there is none.
func (a *Adapter) ReadRef(body []byte) (string, bool) {
	ref := ""
	if gjson.ValidBytes(body) {
		ref = gjson.GetBytes(body, a.Ref).String()
	}
	folder := ref == "." || ref == ".." // no escape keeps these from being a step in a path
	return ref, ref != "" && !folder && len(ref) <= maxRef && strings.ToValidUTF8(ref, "") == ref && !strings.ContainsAny(ref, "\r\n\x00")
}

// ReadStatus reads the state of a job from the answer of Poll. Its error says what no provider of the
// kind answers.
func (a *Adapter) ReadStatus(t Task, body []byte) (Status, error) {
	if !gjson.ValidBytes(body) {
		return Status{}, fmt.Errorf("the answer is not JSON")
	}
	answer := gjson.ParseBytes(body)
	s := Status{Done: -1}
	if said := answer.Get(a.Same).String(); a.Same != "" && said != "" && said != t.Ref {
		return s, fmt.Errorf("the answer is about another job")
	}
	if a.State != "" {
		said := answer.Get(a.State).String()
		state, known := a.States[said]
		if !known {
			return s, fmt.Errorf("the state %q is not documented", said)
		}
		s.State = state
	}
	if done := answer.Get(a.Progress); a.Progress != "" && done.Type == gjson.Number && a.Whole > 0 {
		if part := done.Float() / a.Whole; part >= 0 && !math.IsNaN(part) {
			s.Done = min(part, 1)
		}
	}
	s.Code, s.Reason = first(body, a.Codes), first(body, a.Reasons)
	if s.State != Succeeded || a.Result == nil {
		a.readResult(answer, &s)
	}
	if s.State == "" {
		return s, fmt.Errorf("the answer has no state")
	}
	return s, nil
}

// ReadResult reads the answer of the call that Result returns.
func (a *Adapter) ReadResult(body []byte, s *Status) error {
	if !gjson.ValidBytes(body) {
		return fmt.Errorf("the result is not JSON")
	}
	a.readResult(gjson.ParseBytes(body), s)
	return nil
}

func (a *Adapter) readResult(answer gjson.Result, s *Status) {
	if a.Files != "" {
		files := answer.Get(a.Files)
		if files.Type == gjson.String {
			s.Files = append(s.Files, files.String())
		}
		for _, file := range files.Array() {
			if files.IsArray() && file.Type == gjson.String && file.String() != "" {
				s.Files = append(s.Files, file.String())
			}
		}
	}
	if a.Read != nil {
		a.Read(answer, s)
	}
}

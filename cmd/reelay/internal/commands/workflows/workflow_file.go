package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/submission"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/samber/lo"
)

// maxWorkflow is how large the file of a workflow may be.
const maxWorkflow = 10 << 20

// workflowFile is the file of `reelay workflows run`.
type workflowFile struct {
	Name           string         `yaml:"name" json:"name"`
	IdempotencyKey string         `yaml:"idempotencyKey" json:"idempotencyKey"`
	CallbackURL    string         `yaml:"callbackUrl" json:"callbackUrl"`
	Output         string         `yaml:"output" json:"output"`
	Reuse          string         `yaml:"reuse" json:"reuse"`
	Jobs           []workflowNode `yaml:"jobs" json:"jobs"`
}

type workflowNode struct {
	Key             string                                 `yaml:"key" json:"key"`
	After           []string                               `yaml:"after" json:"after"`
	Continues       string                                 `yaml:"continues" json:"continues"`
	OnParentFailure client.FailurePolicy                   `yaml:"onParentFailure" json:"onParentFailure"`
	Job             yamlfile.Shaped[client.SubmitJobInput] `yaml:"job" json:"-"`
	JSON            json.RawMessage                        `yaml:"-" json:"job"`
}

// readWorkflow reads the file of a workflow, or standard input for "-". An error names the line, or
// for JSON the node. What the server checks is left to it.
func readWorkflow(path string, stdin io.Reader) (in client.SubmitWorkflowInput, err error) {
	data, err := input.ReadUpTo(path, stdin, maxWorkflow)
	if err != nil {
		return in, err
	}
	name := filepath.Base(path)
	var read workflowFile
	problems := &nodeProblems{name: name, place: "$"}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && wellformed.JSON(data) == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if unknown := submission.UnknownField(data, reflect.TypeOf(read)); unknown != "" {
			return in, fmt.Errorf("%s: a workflow has no field %s", name, unknown)
		}
		if err := decoder.Decode(&read); err != nil {
			return in, fmt.Errorf("%s: %w", name, badWorkflow(err))
		}
	} else if problems.file, err = yamlfile.ReadUpTo(maxWorkflow, name, "a workflow: a name and jobs", data, &read); err != nil {
		return in, err
	}
	in = read.input(problems)
	return in, problems.err()
}

// badWorkflow describes an error of the JSON decoder.
func badWorkflow(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New(text.WrongType("", wrong))
	}
	return errors.New(text.Clip(err.Error()[min(len("json: "), len(err.Error())):], 200))
}

// nodeProblems collects the problems of a workflow. In YAML they have lines.
type nodeProblems struct {
	name string
	file *yamlfile.File
	// place is where the workflow is in the file.
	place string
	all   []error
}

// add adds a problem of a part of the workflow, such as .jobs[0].
func (p *nodeProblems) add(part, format string, args ...any) {
	if p.file != nil {
		p.file.Problem(p.place+part, format, args...)
	} else if len(p.all) < 10 {
		p.all = append(p.all, fmt.Errorf("%s: %s", p.name, fmt.Sprintf(format, args...)))
	}
}

func (p *nodeProblems) err() error {
	if p.file != nil {
		return p.file.Err()
	}
	return errors.Join(p.all...)
}

// input converts a workflow. What the server checks is left to it.
func (f *workflowFile) input(problems *nodeProblems) client.SubmitWorkflowInput {
	in := client.SubmitWorkflowInput{
		Name: f.Name, IdempotencyKey: lo.EmptyableToPtr(f.IdempotencyKey), CallbackUrl: lo.EmptyableToPtr(f.CallbackURL),
		Output: lo.EmptyableToPtr(f.Output), Reuse: lo.EmptyableToPtr(f.Reuse),
	}
	if len(f.Jobs) == 0 {
		problems.add("", "the workflow has no jobs: it needs a list named jobs")
	}
	for i, node := range f.Jobs {
		place := fmt.Sprintf(".jobs[%d]", i)
		document := node.JSON
		if document == nil {
			document = json.RawMessage(node.Job)
		}
		if len(document) == 0 {
			problems.add(place, "the node %s needs a job: what it submits", text.Clip(node.Key, 64))
			continue
		}
		job, err := submission.ReadSubmission(document)
		if err != nil {
			problems.add(place, "the job of the node %s: %s", text.Clip(node.Key, 64), err)
		}
		if p := node.OnParentFailure; p != "" && !slices.Contains(client.AllFailurePolicy, p) {
			problems.add(place, "onParentFailure of the node %s is %s: it must be %s", text.Clip(node.Key, 64), text.Clip(string(p), 64),
				input.OneOf(client.AllFailurePolicy))
		}
		in.Jobs = append(in.Jobs, client.WorkflowJobInput{
			Key: node.Key, After: node.After, Job: job, Continues: lo.EmptyableToPtr(node.Continues),
			OnParentFailure: lo.EmptyableToPtr(node.OnParentFailure),
		})
	}
	return in
}

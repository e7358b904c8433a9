package program

import "slices"

// Job is the file that the placeholder {job} names: the whole job for a program that reads it,
// with texts that no argument has to carry.
type Job struct {
	Job     string            `json:"job"`
	Model   string            `json:"model"`
	Type    string            `json:"type"`
	Prompt  string            `json:"prompt"`
	Params  map[string]any    `json:"params"`
	Inputs  map[string]string `json:"inputs"`  // files by parameter, or name.index for one of a list
	Outputs map[string]string `json:"outputs"` // files to write
	Workdir string            `json:"workdir"`
}

// Report is a line of a program whose progress is jsonLines. All fields are optional.
type Report struct {
	Percent    *float64 `json:"percent,omitempty"` // 0 to 100
	Phase      string   `json:"phase,omitempty"`   // LOADING_MODEL, RENDERING or ENCODING
	Message    string   `json:"message,omitempty"`
	Step       int      `json:"step,omitempty"`
	TotalSteps int      `json:"totalSteps,omitempty"`
	// Error says why the program is about to fail. It has no effect if the program succeeds.
	Error *ReportedError `json:"error,omitempty"`
}

// ReportedError is a failure in a program's own words.
type ReportedError struct {
	Class             string `json:"class"`
	Message           string `json:"message"`
	RetryAfterSeconds int    `json:"retryAfterSeconds,omitempty"`
}

// IsClass reports whether a program can report a failure of this class.
func IsClass(class string) bool { return slices.Contains(classes, class) }

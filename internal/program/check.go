package program

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	maxArguments = 200
	maxText      = 4096 // bytes of an argument, a variable or a regular expression
	maxRules     = 50   // variables and rules
	maxTimeout   = 5 * 60 * 60
)

// classes are the failure classes that a rule can name.
var classes = []string{
	"INVALID_INPUT", "CONTENT_POLICY", "UNAUTHORIZED", "TRANSIENT", "TIMEOUT", "RATE_LIMITED",
	"PROVIDER_UNAVAILABLE", "ENDPOINT_FAILED", "OUT_OF_MEMORY", "MODEL_CRASH",
}

// extensions are the endings of each output's file, which decide its media type.
var extensions = map[string][]string{
	"video":       {".mp4", ".webm"},
	"thumbnail":   {".webp", ".jpg", ".png"},
	"spritesheet": {".jpg", ".webp", ".png"},
	"output":      {".json"},
}

var (
	validVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	validFile     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

// check returns what is wrong with settings of the right form.
func (s *Settings) check() []Problem {
	found := s.checkProgram()
	found = append(found, s.checkEnv()...)
	found = append(found, s.checkProgress()...)
	found = append(found, s.checkOutputs()...)
	found = append(found, s.checkErrors()...)
	if s.TimeoutSeconds < 0 || s.TimeoutSeconds > maxTimeout {
		found = append(found, problem(".timeoutSeconds", "timeoutSeconds is %g: it must be over 0 and at most %d", s.TimeoutSeconds, maxTimeout))
	}
	for _, code := range s.SuccessExitCodes {
		if code < 0 || code > 255 {
			found = append(found, problem(".successExitCodes", "the exit status %d does not exist: it must be from 0 to 255", code))
		}
	}
	if len(s.Install) > maxText {
		found = append(found, problem(".install", "install has over %d bytes", maxText))
	}
	return found
}

func (s *Settings) checkProgram() []Problem {
	if len(s.Program) == 0 {
		return []Problem{problem("", "settings of the runtime %s need a program: a list of the program and its arguments", Runtime)}
	}
	if len(s.Program) > maxArguments {
		return []Problem{problem(".program", "program has %d arguments: at most %d are allowed", len(s.Program), maxArguments)}
	}
	var found []Problem
	first := s.Program[0]
	if first.Group || first.Words[0] == "" || first.Words[0] != "{reelay}" && placeholder.MatchString(first.Words[0]) {
		found = append(found, problem(".program[0]",
			"program must begin with the name or path of a program, without placeholders other than {reelay}"))
	}
	for i, argument := range s.Program {
		place := fmt.Sprintf(".program[%d]", i)
		if argument.Group && len(argument.Words) == 0 {
			found = append(found, problem(place, "an optional group of arguments is empty"))
		}
		for _, word := range argument.Words {
			found = append(found, s.checkText(place, word, false)...)
		}
	}
	return found
}

func (s *Settings) checkEnv() []Problem {
	var found []Problem
	if len(s.Env) > maxRules {
		found = append(found, problem(".env", "env has %d variables: at most %d are allowed", len(s.Env), maxRules))
	}
	for name, value := range s.Env {
		if !validVariable.MatchString(name) {
			found = append(found, problem(".env", "the variable %q must have letters, digits and underscores, and not begin with a digit", name))
		}
		found = append(found, s.checkText(".env", value, true)...)
	}
	return found
}

// checkText checks an argument or the value of a variable.
func (s *Settings) checkText(place, text string, variable bool) []Problem {
	if len(text) > maxText || strings.ContainsRune(text, 0) {
		return []Problem{problem(place, "an argument or variable may have %d bytes, none of them zero", maxText)}
	}
	var found []Problem
	for _, name := range placeholder.FindAllString(text, -1) {
		if fault := s.checkPlaceholder(name[1:len(name)-1], variable); fault != "" {
			found = append(found, problem(place, "the placeholder %s %s", name, fault))
		}
	}
	return found
}

// checkPlaceholder returns what is wrong with a placeholder, or "".
func (s *Settings) checkPlaceholder(name string, variable bool) string {
	root, rest, dotted := strings.Cut(name, ".")
	switch {
	case slices.Contains([]string{"prompt", "workdir", "job", "reelay"}, name):
		return ""
	case root == "params" && rest != "" && !strings.Contains(rest, "."):
		return ""
	case root == "params" && dotted:
		return "must be {params.NAME}: a program reads nested parameters from the file {job}"
	case root == "inputs" && rest != "":
		return ""
	case root == "env" && rest != "" && variable:
		return ""
	case root == "env":
		return "is allowed in env only: other users of a machine can see arguments"
	case root == "outputs" && s.Outputs[rest] != "":
		return ""
	case root == "outputs":
		return "names no file of outputs"
	}
	return "does not exist: there is {params.NAME}, {inputs.NAME}, {outputs.NAME}, {prompt}, {workdir}, {job} and {reelay}"
}

func (s *Settings) checkProgress() []Problem {
	p := s.Progress
	switch {
	case p == nil:
		return nil
	case (p.Regexp == "") != p.JSONLines:
		return []Problem{problem(".progress", "progress must have either regexp or jsonLines: true")}
	case p.JSONLines:
		return nil
	}
	if fault := checkPattern(p.Regexp); fault != "" {
		return []Problem{problem(".progress.regexp", "regexp %s", fault)}
	}
	names := p.Pattern().SubexpNames()
	has := func(name string) bool { return slices.Contains(names, name) }
	for _, name := range names {
		if !slices.Contains([]string{"", "percent", "step", "total", "message"}, name) {
			return []Problem{problem(".progress.regexp", "regexp has the group %q: the groups are percent, step, total and message", name)}
		}
	}
	if !has("percent") && !(has("step") && has("total")) {
		return []Problem{problem(".progress.regexp",
			"regexp needs a named group percent, or groups step and total, such as (?P<percent>[0-9]+)%%")}
	}
	return nil
}

func checkPattern(text string) string {
	if len(text) > maxText {
		return fmt.Sprintf("has over %d bytes", maxText)
	}
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Sprintf("is not a regular expression of Go: %v", err)
	}
	return ""
}

func (s *Settings) checkOutputs() []Problem {
	var found []Problem
	taken := map[string]bool{"job.json": true}
	for name, file := range s.Outputs {
		place := ".outputs." + name
		switch {
		case extensions[name] == nil:
			found = append(found, problem(".outputs", "outputs has %q: it can have video, thumbnail, spritesheet and output", name))
		case !validFile.MatchString(file):
			found = append(found, problem(place, "the file %q must be a name of letters, digits, dots, hyphens and underscores, without a folder",
				file))
		case !slices.Contains(extensions[name], filepath.Ext(file)):
			found = append(found, problem(place, "the file %q must end with %s", file, strings.Join(extensions[name], " or ")))
		case taken[file]:
			found = append(found, problem(place, "the file %q is taken", file))
		}
		taken[file] = true
	}
	return found
}

func (s *Settings) checkErrors() []Problem {
	var found []Problem
	if len(s.Errors) > maxRules {
		found = append(found, problem(".errors", "errors has %d rules: at most %d are allowed", len(s.Errors), maxRules))
	}
	for i, rule := range s.Errors {
		place := fmt.Sprintf(".errors[%d]", i)
		if rule.Regexp == "" && rule.ExitCode == nil {
			found = append(found, problem(place, "a rule of errors needs regexp, exitCode or both"))
		}
		if fault := checkPattern(rule.Regexp); fault != "" {
			found = append(found, problem(place, "regexp %s", fault))
		}
		if !slices.Contains(classes, rule.Class) {
			found = append(found, problem(place, "class is %q: it must be one of %s", rule.Class, strings.Join(classes, ", ")))
		}
		if len(rule.Message) > 1000 {
			found = append(found, problem(place, "message has over 1,000 bytes"))
		}
	}
	return found
}

// CheckParams returns the placeholders that name no parameter, given those that a job can have.
func (s *Settings) CheckParams(takes func(name string) bool) []Problem {
	var found []Problem
	check := func(place, text string) {
		for _, name := range placeholder.FindAllString(text, -1) {
			parts := strings.Split(name[1:len(name)-1], ".")
			if (parts[0] == "params" || parts[0] == "inputs") && len(parts) > 1 && !takes(parts[1]) {
				found = append(found, problem(place, "the placeholder %s names a parameter that params does not have", name))
			}
		}
	}
	for i, argument := range s.Program {
		for _, word := range argument.Words {
			check(fmt.Sprintf(".program[%d]", i), word)
		}
	}
	for _, value := range s.Env {
		check(".env", value)
	}
	return found
}

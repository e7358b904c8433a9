package prices

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
)

// Source tells the prices of pools. It has a File, a URL or a Command.
type Source struct {
	// Name is what pools call it.
	Name string `yaml:"name"`
	// File is the path of a file. It and that of a program begin at the folder of the configuration.
	File string `yaml:"file"`
	// URL is an http or https address.
	URL string `yaml:"url"`
	// Command is a program and its arguments. It writes the prices to its standard output.
	Command []string `yaml:"command"`
	// EverySeconds is the time between two readings, 10 to 86,400; 60 if it is 0.
	EverySeconds int `yaml:"everySeconds"`
	// StaleAfterMinutes is the age from which a price is shown as stale, 1 to 10,080; 120 if it
	// is 0.
	StaleAfterMinutes int `yaml:"staleAfterMinutes"`
	// IgnoreAfterMinutes is the age from which the pool's constant price counts instead, from
	// StaleAfterMinutes to 10,080; 1,440 if it is 0.
	IgnoreAfterMinutes int `yaml:"ignoreAfterMinutes"`
}

const (
	maxSources   = 50
	maxArguments = 100
	maxText      = 4096 // bytes of a path, URL or argument
	maxEvery     = 24 * 3600
	week         = 7 * 24 * 60 // minutes

	defaultEvery  = 60
	defaultStale  = 120
	defaultIgnore = 24 * 60
)

var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

func (s *Source) every() time.Duration { return time.Duration(s.EverySeconds) * time.Second }

func (s *Source) staleAfter() time.Duration { return time.Duration(s.StaleAfterMinutes) * time.Minute }

func (s *Source) ignoreAfter() time.Duration {
	return time.Duration(s.IgnoreAfterMinutes) * time.Minute
}

// ReadSources reads a file of sources. An error names the line of each problem.
func ReadSources(path string, data []byte) ([]*Source, error) {
	var found struct {
		Sources []*Source `yaml:"sources"`
	}
	file, err := yamlfile.Read(filepath.Base(path), "sources of prices", data, &found)
	if err != nil {
		return nil, err
	}
	if n := len(found.Sources); n == 0 || n > maxSources {
		return nil, fmt.Errorf("%s: the file must have 1 to %d sources; it has %d", filepath.Base(path), maxSources, n)
	}
	names := map[string]bool{}
	for i, s := range found.Sources {
		place := fmt.Sprintf("$.sources[%d]", i)
		if s == nil {
			file.Problem(place, "a source must have a name")
			continue
		}
		if names[s.Name] {
			file.Problem(place+".name", "the file has two sources with the name %s", text.Clip(s.Name, 64))
		}
		names[s.Name] = true
		s.fill(filepath.Dir(path))
		if field, fault := s.check(); fault != "" {
			file.Problem(place+"."+field, "%s", fault)
		}
	}
	return found.Sources, file.Err()
}

// fill sets what was left out.
func (s *Source) fill(folder string) {
	if s.File != "" && !filepath.IsAbs(s.File) {
		s.File = filepath.Join(folder, s.File)
	}
	if len(s.Command) > 0 && strings.Contains(s.Command[0], "/") && !filepath.IsAbs(s.Command[0]) {
		s.Command[0] = filepath.Join(folder, s.Command[0])
	}
	s.EverySeconds = cmp.Or(s.EverySeconds, defaultEvery)
	s.StaleAfterMinutes = cmp.Or(s.StaleAfterMinutes, defaultStale)
	s.IgnoreAfterMinutes = cmp.Or(s.IgnoreAfterMinutes, max(defaultIgnore, s.StaleAfterMinutes))
}

// check returns the first field that is wrong, and why.
func (s *Source) check() (field, fault string) {
	kinds := 0
	for _, has := range []bool{s.File != "", s.URL != "", len(s.Command) > 0} {
		if has {
			kinds++
		}
	}
	u, err := url.Parse(s.URL)
	switch {
	case !validName.MatchString(s.Name):
		return "name", "name must have 1 to 40 lower-case letters, digits and hyphens, begin with a letter, and not end with a hyphen"
	case kinds != 1:
		return "name", "a source has either a file, a url or a command"
	case len(s.File) > maxText:
		return "file", fmt.Sprintf("file may have %d bytes", maxText)
	case s.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(s.URL) > maxText):
		return "url", "url must be an https or http address" // it may hold a password: not shown
	case len(s.Command) > 0 && s.Command[0] == "":
		return "command", "command must begin with a program"
	case len(s.Command) > maxArguments || slices.ContainsFunc(s.Command, func(a string) bool { return len(a) > maxText }):
		return "command", fmt.Sprintf("command may have %d arguments of %d bytes", maxArguments, maxText)
	case s.EverySeconds < 10 || s.EverySeconds > maxEvery:
		return "everySeconds", fmt.Sprintf("everySeconds must be from 10 to %d", maxEvery)
	case s.StaleAfterMinutes < 1 || s.StaleAfterMinutes > week:
		return "staleAfterMinutes", fmt.Sprintf("staleAfterMinutes must be from 1 to %d", week)
	case s.IgnoreAfterMinutes < s.StaleAfterMinutes || s.IgnoreAfterMinutes > week:
		return "ignoreAfterMinutes", fmt.Sprintf("ignoreAfterMinutes must be from staleAfterMinutes, which is %d, to %d", s.StaleAfterMinutes,
			week)
	}
	return "", ""
}

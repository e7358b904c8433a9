package catalogue

import (
	"github.com/reelay/reelay/internal/program"
)

// Program is the program that a worker needs on its PATH to run a model.
type Program struct {
	Model   string
	Program string // its name or path
	Install string // how to install it, or ""
}

// Programs returns the programs of the models whose runtime is `command`, except those whose
// program depends on the job or the worker.
func (s *Snapshot) Programs() []*Program {
	all := []*Program{}
	for _, m := range s.models {
		if m.Runtime != program.Runtime {
			continue
		}
		if settings, problems := program.Parse(m.Settings); len(problems) == 0 && settings.Fixed() != "" {
			all = append(all, &Program{Model: m.Name, Program: settings.Fixed(), Install: settings.Install})
		}
	}
	return all
}

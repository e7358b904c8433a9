package main

import (
	"path/filepath"
	"sync"
)

// programs says of which release the programs are that start next.
type programs struct {
	newest string // folder of the release under test
	other  string // folder of another release, or ""
	// upgrade starts with the other release, and with what use named since then. Without it, the two
	// releases take turns.
	upgrade bool

	mu    sync.Mutex
	begun int
	use   map[string]string // folder by program
}

// first returns the folder of the release that makes the schema.
func (p *programs) first() string {
	if p.upgrade {
		return p.other
	}
	return p.newest
}

// switchTo lets all later starts of a program be of the release in a folder.
func (p *programs) switchTo(program, folder string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.use == nil {
		p.use = map[string]string{}
	}
	p.use[program] = folder
}

// next returns the folder and the path of a program to start.
func (p *programs) next(program string) (folder, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	switch named, ok := p.use[program]; {
	case ok:
		folder = named
	case p.upgrade, p.other != "" && p.begun%2 == 0:
		folder = p.other
	default:
		folder = p.newest
	}
	return folder, filepath.Join(folder, program)
}

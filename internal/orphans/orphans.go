// Package orphans finds, adopts and reaps the processes below this one, also those whose own
// parent has ended. Only Linux lets a process adopt others.
package orphans

import "strconv"

// Process is a line of the kernel's list of processes.
type Process struct {
	Pid, Parent int
	State       string // as in ps: Z is a zombie
}

// String returns its id and its command line.
func (p Process) String() string { return strconv.Itoa(p.Pid) + " " + commandLine(p.Pid) }

// Zombie reports whether the process has ended and waits for its parent to reap it.
func (p Process) Zombie() bool { return p.State[0] == 'Z' }

// Below returns all descendants of the given processes, each once, parents before their
// children if the roots are in that order. A given process is among them only if another one is its ancestor.
func Below(roots ...int) []Process {
	children := map[int][]Process{}
	for _, p := range list() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	seen := map[int]bool{}
	add := func(parent int) {
		for _, p := range children[parent] {
			if !seen[p.Pid] {
				seen[p.Pid] = true
				found = append(found, p)
			}
		}
	}
	for _, root := range roots {
		add(root)
	}
	for i := 0; i < len(found); i++ {
		add(found[i].Pid)
	}
	return found
}

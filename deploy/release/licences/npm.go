package licences

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Lock is a package-lock.json.
type Lock struct {
	Packages map[string]LockedPackage `json:"packages"` // by folder
}

// LockedPackage is one package of a lock file.
type LockedPackage struct {
	Name      string `json:"name"` // only if the folder is named otherwise
	Version   string `json:"version"`
	Licence   string `json:"license"`
	Integrity string `json:"integrity"`
}

// ReadLock reads the lock file in folder.
func ReadLock(folder string) (Lock, error) {
	var lock Lock
	data, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return lock, fmt.Errorf("read the lock file of npm: %w", err)
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return lock, fmt.Errorf("read %s/package-lock.json: %w", folder, err)
	}
	return lock, nil
}

// each calls yield for every package, in the order of the folders.
func (l Lock) each(yield func(folder string, p LockedPackage)) {
	for _, folder := range slices.Sorted(maps.Keys(l.Packages)) {
		const modules = "node_modules/"
		at := strings.LastIndex(folder, modules)
		if at < 0 {
			continue // the folder of the lock file
		}
		p := l.Packages[folder]
		if p.Name == "" {
			p.Name = folder[at+len(modules):]
		}
		yield(folder, p)
	}
}

// List returns the packages, each version once.
func (l Lock) List() []LockedPackage {
	var list []LockedPackage
	l.each(func(_ string, p LockedPackage) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	})
	return list
}

// Declared returns the packages with the licences that they declare, without texts.
func (l Lock) Declared() []Part {
	var parts []Part
	for _, p := range l.List() {
		parts = append(parts, declared(p))
	}
	return sorted(parts)
}

func declared(p LockedPackage) Part {
	part := Part{Name: "npm " + p.Name, Version: p.Version}
	if p.Licence != "" {
		part.Licences = []string{p.Licence}
	}
	return part
}

// Installed returns the packages with the licences that they declare, and the licence files
// of those that are installed in folder.
func (l Lock) Installed(folder string) ([]Part, error) {
	var parts []Part
	var failed error
	l.each(func(at string, p LockedPackage) {
		part := declared(p)
		if slices.ContainsFunc(parts, func(known Part) bool { return known.Name == part.Name && known.Version == part.Version }) {
			return
		}
		if err := part.read(filepath.Join(folder, at), nil); err != nil && failed == nil {
			failed = err
		}
		if p.Licence != "" {
			part.Licences = []string{p.Licence}
		}
		parts = append(parts, part)
	})
	return sorted(parts), failed
}

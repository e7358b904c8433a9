package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/deploy/release/licences"
)

// licencesFile has the licences of all parts that are not ours.
const licencesFile = "THIRD_PARTY_LICENSES"

// graphiql is the folder whose lock file names what the bundle of GraphiQL contains.
const graphiql = "deploy/release/graphiql"

// npmFolders are the folders of the lock files of what the console embeds.
var npmFolders = []string{".", graphiql}

// writeLicences writes the licences of all that is linked into the programs or embedded in
// the console. It fails if one of them is not accepted.
func (r *release) writeLicences(ctx context.Context) error {
	say("collecting licences")
	if _, err := output(ctx, r.root, nil, "sh", "scripts/npm.sh", graphiql); err != nil {
		return err
	}
	var builds []licences.Build
	for _, t := range r.targets {
		build := licences.Build{OS: t.os, Arch: t.arch}
		for _, p := range programs {
			build.Packages = append(build.Packages, "./cmd/"+p.name)
		}
		builds = append(builds, build)
	}
	parts, err := licences.Modules(ctx, r.root, builds...)
	if err != nil {
		return err
	}
	for _, folder := range npmFolders {
		lock, err := licences.ReadLock(filepath.Join(r.root, folder))
		if err != nil {
			return err
		}
		packages, err := lock.Installed(filepath.Join(r.root, folder))
		if err != nil {
			return fmt.Errorf("%w: run `go tool task assets`", err)
		}
		parts = append(parts, packages...)
	}
	r.parts = parts
	if err := licences.Check(parts); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.out, licencesFile))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := licences.Write(file, parts); err != nil {
		return err
	}
	return file.Close()
}

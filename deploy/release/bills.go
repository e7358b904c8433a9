package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/reelay/reelay/deploy/release/licences"
)

// tools is the module file of the tools that a release needs.
const tools = "deploy/release/tools/go.mod"

// tool builds a tool of that module and returns its path.
func (r *release) tool(ctx context.Context, name string) (string, error) {
	path, err := output(ctx, r.root, nil, "go", "tool", "-modfile="+filepath.Join(r.root, tools), "-n", name)
	return strings.TrimSpace(string(path)), err
}

// writeBills writes a bill of materials per target, and one of the Python runtimes.
func (r *release) writeBills(ctx context.Context) error {
	say("writing bills of materials")
	scanner, err := r.tool(ctx, "cyclonedx-gomod")
	if err != nil {
		return err
	}
	var npm []cdx.Component
	for _, folder := range npmFolders {
		lock, err := licences.ReadLock(filepath.Join(r.root, folder))
		if err != nil {
			return err
		}
		for _, p := range lock.List() {
			component, err := npmComponent(p)
			if err != nil {
				return err
			}
			npm = append(npm, component)
		}
	}
	for _, t := range r.targets {
		var scanned []cdx.BOM
		for _, p := range programs {
			bom, err := r.scan(ctx, scanner, t, p)
			if err != nil {
				return err
			}
			scanned = append(scanned, bom)
		}
		bom := merge(r.version, scanned, npm, r.parts)
		if err := writeBill(filepath.Join(r.out, fmt.Sprintf("reelay_%s_%s.cdx.json", r.version, t)), bom, r.time); err != nil {
			return err
		}
	}
	return r.writeRuntimesBill()
}

// scan returns the modules in a program.
func (r *release) scan(ctx context.Context, scanner string, t target, p program) (cdx.BOM, error) {
	var bom cdx.BOM
	file := filepath.Join(r.stage, t.String(), p.name)
	out, err := output(ctx, r.root, []string{"GOOS=" + t.os, "GOARCH=" + t.arch}, scanner, "bin", "-json", "-noserial", "-notimestamp",
		"-version", "v"+r.version, file)
	if err != nil {
		return bom, err
	}
	if err := cdx.NewBOMDecoder(bytes.NewReader(out), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return bom, fmt.Errorf("read the bill of materials of %s: %w", p.name, err)
	}
	if bom.Components == nil || bom.Metadata == nil || bom.Metadata.Component == nil {
		return bom, fmt.Errorf("the bill of materials of %s has no components", p.name)
	}
	sum, err := sumOf(file)
	if err != nil {
		return bom, err
	}
	bom.Metadata.Component.Name = p.name
	bom.Metadata.Component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return bom, nil
}

// merge returns one bill of all programs, with the packages that the console embeds, and the
// licences of the modules.
func merge(version string, scanned []cdx.BOM, npm []cdx.Component, parts []licences.Part) *cdx.BOM {
	bom := newBill(cdx.Component{BOMRef: "reelay", Type: cdx.ComponentTypeApplication, Name: "reelay", Version: version})
	var programs, components []cdx.Component
	for _, s := range scanned {
		programs = append(programs, *s.Metadata.Component)
		for _, c := range *s.Components {
			if p := partOf(c, parts); p != nil {
				c.Licenses = licencesOf(p.Licences)
			}
			components = append(components, c)
		}
	}
	bom.Metadata.Component.Components = &programs
	for _, p := range parts {
		if p.Name == licences.Go {
			components = append(components, goComponent(p))
		}
	}
	components = append(components, npm...)
	bom.Components = distinct(components)
	return bom
}

// library returns a part with its package URL.
func library(name, version, purl string) cdx.Component {
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl}
}

// goComponent returns Go's library, which the scanner leaves out.
func goComponent(p licences.Part) cdx.Component {
	version := strings.TrimPrefix(p.Version, "go")
	purl := "pkg:golang/std@" + version
	c := library("std", version, purl)
	c.Licenses = licencesOf(p.Licences)
	return c
}

// partOf returns the part with the licences of a Go module, or nil.
func partOf(c cdx.Component, parts []licences.Part) *licences.Part {
	for i, p := range parts {
		if p.Name == c.Name && p.Version == c.Version {
			return &parts[i]
		}
	}
	return nil
}

func licencesOf(ids []string) *cdx.Licenses {
	var all cdx.Licenses
	for _, id := range ids {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &all
}

func newBill(of cdx.Component) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &of}
	return bom
}

// distinct returns the components in order, each once.
func distinct(components []cdx.Component) *[]cdx.Component {
	slices.SortStableFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	components = slices.CompactFunc(components, func(a, b cdx.Component) bool { return a.BOMRef == b.BOMRef })
	return &components
}

func writeBill(path string, bom *cdx.BOM, at time.Time) error {
	bom.Metadata.Timestamp = at.Format(time.RFC3339)
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// npmComponent returns a package of a lock file as a component.
func npmComponent(p licences.LockedPackage) (cdx.Component, error) {
	purl := "pkg:npm/" + strings.ReplaceAll(p.Name, "@", "%40") + "@" + url.PathEscape(p.Version)
	c := library(p.Name, p.Version, purl)
	if scope, name, ok := strings.Cut(p.Name, "/"); ok {
		c.Group, c.Name = scope, name
	}
	digest, ok := strings.CutPrefix(p.Integrity, "sha512-")
	hash, err := base64.StdEncoding.DecodeString(digest)
	if !ok || err != nil {
		return c, fmt.Errorf("the npm package %s %s has the integrity %q in its lock file: it must be sha512",
			p.Name, p.Version, p.Integrity)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(hash)}}
	// A name of npm that SPDX does not know is no identifier.
	c.Licenses = &cdx.Licenses{{License: &cdx.License{Name: p.Licence}}}
	return c, nil
}

// writeRuntimesBill writes the packages that the lock files of the Python runtimes name. They
// are not in the archives: an operator installs them beside the agent.
func (r *release) writeRuntimesBill() error {
	locks, err := filepath.Glob(filepath.Join(r.root, "gpu/runtimes/*/requirements.txt"))
	if err != nil {
		return err
	}
	var components []cdx.Component
	for _, lock := range locks {
		text, err := os.ReadFile(lock)
		if err != nil {
			return err
		}
		found, err := pypiComponents(string(text))
		if err != nil {
			return fmt.Errorf("read %s: %w", lock, err)
		}
		components = append(components, found...)
	}
	const name = "reelay-runtimes"
	bom := newBill(cdx.Component{BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: r.version})
	bom.Components = distinct(components)
	return writeBill(filepath.Join(r.out, fmt.Sprintf("reelay-runtimes_%s.cdx.json", r.version)), bom, r.time)
}

// requirement is a pinned package of a lock file of pip.
var requirement = regexp.MustCompile(`(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)`)

// pypiComponents returns the packages that a lock file of pip names.
func pypiComponents(lock string) ([]cdx.Component, error) {
	var components []cdx.Component
	for _, found := range requirement.FindAllStringSubmatch(lock, -1) {
		name, version := strings.ToLower(strings.ReplaceAll(found[1], "_", "-")), found[2]
		purl := "pkg:pypi/" + name + "@" + url.PathEscape(version)
		components = append(components, library(name, version, purl))
	}
	if len(components) == 0 {
		return nil, errors.New("it names no package, such as torch==2.9.0")
	}
	return components, nil
}

package licences

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

func TestReleasedPartsHaveAcceptedLicences(t *testing.T) {
	t.Parallel()

	t.Run("GoModules", func(t *testing.T) {
		t.Parallel()

		var builds []Build
		for _, os := range []string{"linux", "darwin"} {
			for _, arch := range []string{"amd64", "arm64"} {
				builds = append(builds, Build{OS: os, Arch: arch, Packages: []string{"./cmd/reelay", "./cmd/reelay-agent"}})
			}
		}

		parts, err := Modules(t.Context(), root, builds...)

		require.NoError(t, err)
		require.Greater(t, len(parts), 50)
		require.Equal(t, Go, parts[0].Name)
		require.NoError(t, Check(parts))
		for _, p := range parts {
			require.NotEmpty(t, p.Texts, p.Name)
		}
	})

	for _, folder := range []string{".", "deploy/release/graphiql"} {
		t.Run("NpmPackagesOf "+folder, func(t *testing.T) {
			t.Parallel()

			lock, err := ReadLock(filepath.Join(root, folder))

			require.NoError(t, err)
			require.Greater(t, len(lock.Declared()), 5)
			require.NoError(t, Check(lock.Declared()))
		})
	}

	t.Run("TheBundleOfGraphiQLIsTheOneOfTheConsole", func(t *testing.T) {
		t.Parallel()

		console, err := ReadLock(root)
		require.NoError(t, err)
		bundle, err := ReadLock("../graphiql")
		require.NoError(t, err)

		const graphiql = "node_modules/graphiql"
		require.NotEmpty(t, console.Packages[graphiql].Integrity)
		require.Equal(t, console.Packages[graphiql], bundle.Packages[graphiql],
			"set the same version in deploy/release/graphiql/package.json")
	})

	t.Run("NoExceptionIsOutdated", func(t *testing.T) {
		t.Parallel()

		parts, err := Modules(t.Context(), root, Build{OS: "linux", Arch: "amd64", Packages: []string{"./cmd/reelay"}})
		require.NoError(t, err)
		console, err := ReadLock(root)
		require.NoError(t, err)
		parts = append(parts, console.Declared()...)
		for _, e := range exceptions {
			require.True(t, has(parts, e.part, e.licence), "%s no longer has the licence %s: remove the exception", e.part, e.licence)
		}
	})
}

func has(parts []Part, name, licence string) bool {
	for _, p := range parts {
		if p.Name == name && strings.Contains(strings.Join(p.Licences, " "), licence) {
			return true
		}
	}
	return false
}

func TestCheck(t *testing.T) {
	t.Parallel()

	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as " +
		"published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version."
	mit, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	require.NoError(t, err)

	for name, c := range map[string]struct{ text, want string }{
		"AcceptsApache":    {string(mit), ""},
		"RefusesGPL":       {gpl, "example.com/part v1: GPL-3.0-or-later"},
		"RefusesUnknown":   {"You must send me a postcard.", "example.com/part v1: unknown text in LICENSE"},
		"RefusesTwoInOne":  {string(mit) + "\n" + gpl, "example.com/part v1: GPL-3.0-or-later"},
		"RefusesNoLicence": {"", "example.com/part v1: no known licence"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part := Part{Name: "example.com/part", Version: "v1"}
			if c.text != "" {
				part.add("LICENSE", c.text)
			}

			err := Check([]Part{part})

			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err,
				"the licences of these parts are not accepted; replace the part, or decide in deploy/release/licences:\n"+c.want)
		})
	}

	t.Run("ExceptsOneLicenceOfOnePart", func(t *testing.T) {
		t.Parallel()

		require.NoError(t, Check([]Part{{Name: "github.com/hashicorp/golang-lru/v2", Licences: []string{"MPL-2.0"}}}))
		require.ErrorContains(t, Check([]Part{{Name: "github.com/hashicorp/golang-lru/v2", Licences: []string{"GPL-2.0"}}}), "GPL-2.0")
		require.ErrorContains(t, Check([]Part{{Name: "example.com/part", Licences: []string{"MPL-2.0"}}}), "MPL-2.0")
	})
}

func TestRead(t *testing.T) {
	t.Parallel()

	t.Run("FindsLicencesOfCodeWithinAPackage", func(t *testing.T) {
		t.Parallel()
		module := t.TempDir()
		for file, text := range map[string]string{
			"LICENSE": "a", "NOTICE": "b", "inner/COPYING.txt": "c", "inner/deep/License.md": "d", "license.go": "e", "beside/LICENSE": "f",
		} {
			path := filepath.Join(module, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		var part Part

		require.NoError(t, part.read(module, []listed{{Dir: filepath.Join(module, "inner/deep")}}))

		require.Equal(t, []Text{{"LICENSE", "a"}, {"NOTICE", "b"}, {"inner/COPYING.txt", "c"}, {"inner/deep/License.md", "d"}}, part.Texts)
	})
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var file strings.Builder

	texts := []Text{{"LICENSE", "Permission is granted.\n"}}
	err := Write(&file, []Part{{Name: "a", Version: "v1", Licences: []string{"MIT"}, Texts: texts}})

	require.NoError(t, err)
	require.Equal(t, "Reelay contains the parts listed here. Their licences follow.\n\na v1: MIT\n"+
		rule+"a v1, LICENSE"+rule+"\nPermission is granted.\n", file.String())
}

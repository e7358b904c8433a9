package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/reelay/reelay/deploy/release/licences"
	"github.com/stretchr/testify/require"
)

func TestMerge(t *testing.T) {
	t.Parallel()

	module := func(name string) cdx.Component {
		return cdx.Component{BOMRef: "pkg:golang/" + name + "@v1", Name: name, Version: "v1"}
	}
	scanned := []cdx.BOM{
		{Metadata: &cdx.Metadata{Component: &cdx.Component{Name: "reelay"}}, Components: &[]cdx.Component{module("b"), module("a")}},
		{Metadata: &cdx.Metadata{Component: &cdx.Component{Name: "reelay-agent"}}, Components: &[]cdx.Component{module("a")}},
	}
	npm, err := npmComponent(licences.LockedPackage{Name: "@dagrejs/dagre", Version: "3.1.3", Licence: "MIT", Integrity: "sha512-AAEC"})
	require.NoError(t, err)
	parts := []licences.Part{
		{Name: "a", Version: "v1", Licences: []string{"MIT"}}, {Name: licences.Go, Version: "go1.26.8", Licences: []string{"BSD-3-Clause"}},
	}

	bom := merge("0.1.0", scanned, []cdx.Component{npm}, parts)

	var refs []string
	for _, c := range *bom.Components {
		refs = append(refs, c.BOMRef)
	}
	require.Equal(t, []string{"pkg:golang/a@v1", "pkg:golang/b@v1", "pkg:golang/std@1.26.8", "pkg:npm/%40dagrejs/dagre@3.1.3"}, refs)
	require.Equal(t, "MIT", (*(*bom.Components)[0].Licenses)[0].License.ID)
	require.Equal(t, "000102", (*(*bom.Components)[3].Hashes)[0].Value)
	require.Len(t, *bom.Metadata.Component.Components, 2)

	t.Run("IsWrittenTheSameEachTime", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		first, second := filepath.Join(folder, "a"), filepath.Join(folder, "b")

		require.NoError(t, writeBill(first, bom, time.Unix(1795874678, 0).UTC()))
		require.NoError(t, writeBill(second, bom, time.Unix(1795874678, 0).UTC()))

		text, err := os.ReadFile(first)
		require.NoError(t, err)
		again, err := os.ReadFile(second)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
		require.Contains(t, string(text), `"timestamp": "2026-11-28T14:04:38Z"`)
	})
}

func TestNpmComponentRefusesAPackageWithoutAChecksum(t *testing.T) {
	t.Parallel()

	_, err := npmComponent(licences.LockedPackage{Name: "left-pad", Version: "1.0.0", Integrity: "sha1-AAEC"})

	require.EqualError(t, err, `the npm package left-pad 1.0.0 has the integrity "sha1-AAEC" in its lock file: it must be sha512`)
}

func TestPypiComponents(t *testing.T) {
	t.Parallel()

	t.Run("ReadsALockFile", func(t *testing.T) {
		t.Parallel()

		found, err := pypiComponents("# torch==1\nanyio==4.16.0 ; sys_platform != 'emscripten' \\\n    --hash=sha256:59\n" +
			"Typing_Extensions==4.1\n")

		require.NoError(t, err)
		require.Len(t, found, 2)
		require.Equal(t, "pkg:pypi/anyio@4.16.0", found[0].PackageURL)
		require.Equal(t, "pkg:pypi/typing-extensions@4.1", found[1].PackageURL)
	})

	t.Run("ReadsThoseOfTheRuntimes", func(t *testing.T) {
		t.Parallel()
		locks, err := filepath.Glob("../../gpu/runtimes/*/requirements.txt")
		require.NoError(t, err)
		require.NotEmpty(t, locks)

		for _, lock := range locks {
			text, err := os.ReadFile(lock)
			require.NoError(t, err)
			_, err = pypiComponents(string(text))
			require.NoError(t, err, lock)
		}
	})

	t.Run("RefusesAFileWithoutPackages", func(t *testing.T) {
		t.Parallel()

		_, err := pypiComponents("torch>=2\n")

		require.EqualError(t, err, "it names no package, such as torch==2.9.0")
	})
}

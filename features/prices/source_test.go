package prices

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestReadSources(t *testing.T) {
	t.Parallel()

	t.Run("ReadsFilesURLsAndPrograms", func(t *testing.T) {
		t.Parallel()

		found, err := ReadSources("/etc/reelay/prices.yaml", []byte(`sources:
  - { name: night, file: night.json }
  - { name: cloud, url: "https://prices.example/v1", everySeconds: 300, staleAfterMinutes: 2880 }
  - { name: own, command: [./own, --all] }
`))

		require.NoError(t, err)
		require.Equal(t, &Source{Name: "night", File: "/etc/reelay/night.json", EverySeconds: 60, StaleAfterMinutes: 120,
			IgnoreAfterMinutes: 1440}, found[0])
		require.Equal(t, 2880, found[1].IgnoreAfterMinutes)
		require.Equal(t, []string{"/etc/reelay/own", "--all"}, found[2].Command)
	})

	for name, c := range map[string]struct{ source, want string }{
		"Typo":          {"{ name: a, fil: x }", `prices.yaml:2: unknown field "fil"`},
		"NoName":        {"{ file: x }", "prices.yaml:2: name must have"},
		"TwoKinds":      {"{ name: a, file: x, command: [y] }", "prices.yaml:2: a source has either a file, a url or a command"},
		"NoKind":        {"{ name: a }", "a source has either"},
		"Scheme":        {"{ name: a, url: 'file:///etc/passwd' }", "url must be an https or http address"},
		"TooOften":      {"{ name: a, file: x, everySeconds: 1 }", "everySeconds must be from 10 to 86400"},
		"StaleForYears": {"{ name: a, file: x, staleAfterMinutes: 10081 }", "staleAfterMinutes must be from 1 to 10080"},
		"IgnoredFirst": {"{ name: a, file: x, ignoreAfterMinutes: 5 }",
			"ignoreAfterMinutes must be from staleAfterMinutes, which is 120, to 10080"},
		"Twice":     {"{ name: a, file: x }\n  - { name: a, file: y }", "prices.yaml:3: the file has two sources with the name a"},
		"Nothing":   {"", "a source must have a name"},
		"NoProgram": {"{ name: a, command: [''] }", "command must begin with a program"},
	} {
		t.Run("Refuses/"+name, func(t *testing.T) {
			t.Parallel()

			_, err := ReadSources("/x/prices.yaml", []byte("sources:\n  - "+c.source+"\n"))

			require.ErrorContains(t, err, c.want)
		})
	}
}

// valid is a document with a price of an L4.
func valid(at time.Time, usd float64) string {
	return fmt.Sprintf(`{"at": %q, "prices": [{"gpuType": "L4", "pricePerHourUsd": %g}]}`, at.UTC().Format(time.RFC3339), usd)
}

func TestParse(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ document, want string }{
		"Nothing":      {"", "it is not JSON"},
		"Nonsense":     {"<html>", "it is not JSON"},
		"TwoDocuments": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": 1}]} {}`, "it is not JSON"},
		"AList":        {`[]`, "it is not an object with at and prices"},
		"Typo":         {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuTyp": "L4", "pricePerHourUsd": 1}]}`, `unknown field "gpuTyp"`},
		"NoTime":       {`{"prices": [{"gpuType": "L4", "pricePerHourUsd": 1}]}`, "at, the time of the prices, is missing"},
		"NotATime":     {`{"at": "noon", "prices": [{"gpuType": "L4", "pricePerHourUsd": 1}]}`, `at is "noon"`},
		"NoPrices":     {`{"at": "2026-01-31T12:00:00Z", "prices": []}`, "prices must have 1 to 10000 entries"},
		"NoPrice":      {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4"}]}`, "prices[0].pricePerHourUsd must be from 0 to 10000"},
		"Negative": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": -0.1}]}`,
			"prices[0].pricePerHourUsd must be"},
		"NaN":      {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": NaN}]}`, "it is not JSON"},
		"Infinite": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": 1e999}]}`, "out of range"},
		"Absurd": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": 10001}]}`,
			"prices[0].pricePerHourUsd must be"},
		"Text": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": "1"}]}`,
			"prices.pricePerHourUsd must be a number; it is a text"},
		"ForAllMachines": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"region": "r", "pricePerHourUsd": 1}]}`,
			"prices[0] must have a gpuType or a pool"},
		"Class": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "capacityClass": "spot", "pricePerHourUsd": 1}]}`,
			"SPOT or ON_DEMAND"},
		"From": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "from": "later", "pricePerHourUsd": 1}]}`,
			`prices[0].from is "later"`},
		"Twice":          {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": 1}, {"gpuType": "L4", "pricePerHourUsd": 2}]}`, "prices[1] is for the same machines and time as prices[0]"},
		"OneOfManyWrong": {`{"at": "2026-01-31T12:00:00Z", "prices": [{"gpuType": "L4", "pricePerHourUsd": 1}, {"gpuType": "T4", "pricePerHourUsd": -2}]}`, "prices[1].pricePerHourUsd"},
		"TooLarge":       {strings.Repeat(" ", maxBytes+1), "it has more than 1048576 bytes"},
	} {
		t.Run("Refuses/"+name, func(t *testing.T) {
			t.Parallel()

			_, err := parse([]byte(c.document), false)

			require.ErrorContains(t, err, c.want)
		})
	}

	t.Run("FindsTheEntryThatSaysTheMostOfAPool", func(t *testing.T) {
		t.Parallel()

		pool := &capacity.Pool{PoolSpec: capacity.PoolSpec{Name: "p", Provider: "gce", Region: "r", Zones: []string{"b", "a"}, GPUType: "L4",
			CapacityClass: "SPOT"}}
		of := func(prices string) []float64 {
			d, err := parse([]byte(`{"at": "2026-01-31T12:00:00Z", "prices": [`+prices+`]}`), false)
			require.NoError(t, err)
			var found []float64
			for _, step := range d.stepsOf(pool, d.at) {
				found = append(found, step.PricePerHourUSD)
			}
			return found
		}
		const gpu, region = `{"gpuType": "L4", "pricePerHourUsd": 1}`, `{"gpuType": "L4", "region": "r", "pricePerHourUsd": 2}`
		const a, b = `{"gpuType": "L4", "region": "r", "zone": "a", "pricePerHourUsd": 3}`,
			`{"gpuType": "L4", "region": "r", "zone": "b", "pricePerHourUsd": 4}`

		require.Equal(t, []float64{1}, of(gpu))
		require.Equal(t, []float64{2}, of(region+","+gpu))
		require.Equal(t, []float64{4}, of(a+","+b+","+region), "the pool tries the zone b first")
		require.Equal(t, []float64{5}, of(a+`,{"pool": "p", "pricePerHourUsd": 5}`))
		require.Equal(t, []float64{6}, of(region+`,{"gpuType": "L4", "capacityClass": "SPOT", "pricePerHourUsd": 6}`), "the dearest")
		require.Equal(t, []float64{1, 7}, of(`{"gpuType": "L4", "from": "2026-01-31T18:00:00Z", "pricePerHourUsd": 7},`+gpu))
		require.Empty(t, of(`{"gpuType": "L4", "region": "other", "pricePerHourUsd": 1}, {"gpuType": "L4", "zone": "c", "pricePerHourUsd": 1}, {"gpuType": "L4", "capacityClass": "ON_DEMAND", "pricePerHourUsd": 1}`))
		require.Empty(t, of(`{"gpuType": "L4", "from": "2026-03-01T00:00:00Z", "pricePerHourUsd": 1}`), "more than a week ahead")
	})
}

func TestSource_Read(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	folder := t.TempDir()
	file := func(name, data string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
		return path
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			fmt.Fprint(w, valid(at, 0.4))
		case "/elsewhere":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/down":
			w.WriteHeader(http.StatusInternalServerError)
		case "/hangs":
			<-r.Context().Done()
		case "/stops":
			fmt.Fprint(w, `{"at": `)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/floods":
			for r.Context().Err() == nil {
				fmt.Fprint(w, strings.Repeat(" ", 1<<16))
			}
		}
	}))
	t.Cleanup(server.Close)
	secret := strings.Replace(server.URL, "http://", "http://user:hunter2@", 1)
	shell := func(script string) []string { return []string{"/bin/sh", "-c", script} }

	for name, c := range map[string]struct {
		source Source
		limit  time.Duration // 0: long
		want   string        // in the error; "" for none
	}{
		"AFile":                {source: Source{File: file("ok.json", valid(at, 0.4))}},
		"AURL":                 {source: Source{URL: server.URL + "/ok"}},
		"AProgram":             {source: Source{Command: shell("cat " + filepath.Join(folder, "ok.json"))}},
		"NoFile":               {source: Source{File: filepath.Join(folder, "none")}, want: "its file cannot be read"},
		"AFolder":              {source: Source{File: folder}, want: "is not a regular file"},
		"APipe":                {source: Source{File: filepath.Join(folder, "fifo")}, want: "is not a regular file"},
		"ALargeFile":           {source: Source{File: file("large.json", strings.Repeat(" ", maxBytes+1))}, want: "it has more than"},
		"ARedirect":            {source: Source{URL: server.URL + "/elsewhere"}, want: "the status 302"},
		"AnError":              {source: Source{URL: server.URL + "/down"}, want: "the status 500"},
		"AURLThatHangs":        {source: Source{URL: server.URL + "/hangs"}, limit: 50 * time.Millisecond, want: "it did not answer in time"},
		"AURLThatStops":        {source: Source{URL: server.URL + "/stops"}, limit: 200 * time.Millisecond, want: "it did not answer in time"},
		"AURLThatFloods":       {source: Source{URL: server.URL + "/floods"}, want: "it has more than"},
		"AnEmptyURL":           {source: Source{URL: server.URL + "/empty"}, want: "it is not JSON"},
		"NoServer":             {source: Source{URL: "http://user:hunter2@127.0.0.1:1/"}, want: "its URL cannot be read"},
		"AURLWithAPassword":    {source: Source{URL: secret + "/down"}, want: "the status 500"},
		"NoProgram":            {source: Source{Command: []string{"/nowhere/prices"}}, want: "its program cannot be run"},
		"AProgramThatFails":    {source: Source{Command: shell("echo no quota >&2; exit 3")}, want: "its program failed: no quota"},
		"AProgramThatIsSilent": {source: Source{Command: shell("exit 3")}, want: "its program failed: exit status 3"},
		"AProgramThatHangs": {source: Source{Command: shell("sleep 600 & sleep 600")}, limit: 50 * time.Millisecond,
			want: "it did not answer in time"},
		"AProgramThatFloods":  {source: Source{Command: shell("yes")}, want: "it wrote more than 1048576 bytes"},
		"AProgramThatRambles": {source: Source{Command: shell("echo 0.4")}, want: "it is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.limit == 0 {
				c.limit = time.Minute
			}

			d, stays, err := c.source.read(context.Background(), c.limit)

			if c.want == "" {
				require.NoError(t, err)
				require.False(t, stays)
				require.Equal(t, at, d.at.UTC())
				require.InDelta(t, 0.4, d.entries[0].usd, 0)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}

	t.Run("TakesTheTimeOfAFileThatStatesNone", func(t *testing.T) {
		t.Parallel()
		s := Source{File: file("timeless.json", `{"prices": [{"gpuType": "L4", "pricePerHourUsd": 1}]}`)}
		d, stays, err := s.read(context.Background(), time.Minute)
		require.NoError(t, err)
		require.True(t, stays)
		require.WithinDuration(t, time.Now(), d.at, time.Minute)
	})
}

package bill_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/reelay/reelay/internal/bill"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

const gcp = `billing_account_id,service.description,sku.description,usage_start_time,usage_end_time,resource.name,cost,currency
01,Compute Engine,Spot L4,2026-10-01 00:00:00 UTC,2026-10-01 01:00:00 UTC,reelay-a,1.25,USD
01,Compute Engine,Spot L4,2026-10-01 01:00:00 UTC,2026-10-01 02:00:00 UTC,reelay-a,1.25,USD
01,Compute Engine,"Disk, balanced",2026-10-01 01:00:00 UTC,2026-10-01 02:00:00 UTC,projects/p/zones/z/disks/reelay-a,1.2e-02,USD
01,Compute Engine,Spot L4,2026-10-02 01:00:00 UTC,2026-10-02 02:00:00 UTC,vm-b,2,USD
01,Cloud Storage,Storage,2026-10-01 01:00:00 UTC,2026-10-01 02:00:00 UTC,bucket,7,USD
01,Compute Engine,Egress,2026-10-01 01:00:00 UTC,2026-10-01 02:00:00 UTC,,0.5,USD
`

func read(t *testing.T, file string, kind bill.Kind) *bill.Sums {
	t.Helper()
	sums, err := bill.Read(strings.NewReader(file), kind, time.Time{}, time.Time{})
	require.NoError(t, err)
	return sums
}

func usd(sums *bill.Sums, id string) string {
	if sums.Items[id] == nil {
		return ""
	}
	return sums.Items[id].USD.String()
}

// in16 encodes a text as spreadsheets do.
func in16(text string) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		out.WriteByte(byte(unit))
		out.WriteByte(byte(unit >> 8))
	}
	return out.String()
}

func TestRead(t *testing.T) {
	t.Parallel()

	for name, file := range map[string]string{
		"plain": gcp, "with a mark": "\ufeff" + gcp, "UTF-16": in16(gcp), "Windows": strings.ReplaceAll(gcp, "\n", "\r\n"), "no last end of line": strings.TrimSpace(gcp),
		"semicolons": strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(gcp, "Disk, ", "Disk; "), ",", ";"), "1.25", "1,25"),
		"tabs":       strings.ReplaceAll(strings.ReplaceAll(gcp, "Disk, ", "Disk\t"), ",", "\t"),
		"other names": strings.Replace(gcp, "billing_account_id,service.description,sku.description,usage_start_time,usage_end_time,resource.name,cost,currency",
			"Billing account ID,Service description,SKU description,Usage start date,Usage end date,Resource name,Cost ($),Currency", 1),
	} {
		sums := read(t, file, bill.GCP)
		require.Equal(t, 6, sums.Lines, name)
		require.Equal(t, "2.512", usd(sums, "reelay-a"), name)
		require.Equal(t, "2", usd(sums, "vm-b"), name)
		require.Equal(t, "7.5", sums.Other.USD.String(), name)
		require.Zero(t, sums.Broken, name)
		require.Equal(t, time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), sums.From, name)
		require.Equal(t, time.Date(2026, 10, 2, 2, 0, 0, 0, time.UTC), sums.To, name)
	}
	usage := read(t, "Task ID;Created At;Amount (USD)\nt1;2026-10-01T00:00:00Z;0,40\nt1;2026-10-01;0,10\n", bill.Usage)
	require.Equal(t, "0.5", usd(usage, "t1"))
}

func TestRead_CountsARepeatedLineOnce(t *testing.T) {
	t.Parallel()

	sums := read(t, gcp+strings.Split(gcp, "\n")[1]+"\n", bill.GCP)
	require.Equal(t, 1, sums.Repeated)
	require.Equal(t, 7, sums.Lines)
	require.Equal(t, "2.512", usd(sums, "reelay-a"))
}

func TestRead_OnlyASpan(t *testing.T) {
	t.Parallel()

	from := time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)
	sums, err := bill.Read(strings.NewReader(gcp), bill.GCP, from, from.AddDate(0, 0, 1))
	require.NoError(t, err)
	require.Equal(t, 5, sums.Outside)
	require.Len(t, sums.Items, 1)
	require.Equal(t, from, sums.From)
}

func TestRead_ListsBrokenLines(t *testing.T) {
	t.Parallel()

	for line, why := range map[string]string{
		`01,Compute Engine,x,2026-10-01,2026-10-02,reelay-a,NaN,USD`:                            "is no amount",
		`01,Compute Engine,x,2026-10-01,2026-10-02,reelay-a,1e999999999,USD`:                    "is no amount",
		`01,Compute Engine,x,2026-10-01,2026-10-02,reelay-a,"1,000.00",USD`:                     "is no amount",
		`01,Compute Engine,x,yesterday,2026-10-02,reelay-a,1,USD`:                               "is no time",
		`01,Compute Engine,x,2026-10-01`:                                                        "it has 4 fields, and the first line 8",
		`01,Compute Engine,"x"y,2026-10-01,2026-10-02,reelay-a,1,USD`:                           "text follows a field in quotes",
		strings.Repeat("x", 300<<10):                                                            "longer than 256 KiB",
		`01,Compute Engine,"x,2026-10-01,2026-10-02,reelay-a,1,USD` + strings.Repeat("\ny", 99): "a quote is not closed: the lines from it to 107",
	} {
		sums := read(t, gcp+line+"\n"+"0"+strings.Split(gcp, "\n")[4]+"\n", bill.GCP)
		require.Equal(t, 1, sums.Broken, why)
		require.Contains(t, sums.Problems[0].Why, why)
		require.Equal(t, 8, sums.Problems[0].Line, why)
	}
	var broken strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&broken, "broken %d\n", i)
	}
	many := read(t, gcp+broken.String(), bill.GCP)
	require.Equal(t, 1000, many.Broken)
	require.Len(t, many.Problems, bill.MaxProblems)
}

func TestRead_RefusesOtherFiles(t *testing.T) {
	t.Parallel()

	for file, why := range map[string]string{
		"": "the file is empty", "\ufeff": "the file is empty", "\n\n": "the file is empty",
		"a,b,c\n1,2,3\n":                                  "no column with the id of a machine",
		strings.Replace(gcp, "USD", "EUR", 1):             `line 2: "EUR" is another currency than USD`,
		strings.Replace(gcp, ",USD\n", ",\n", 1):          "another currency than USD",
		strings.Replace(gcp, "currency", "x", 1):          "no column currency",
		strings.Replace(gcp, "vm-b", "b\xfcro", 1):        "line 5 is not valid UTF-8",
		strings.Replace(gcp, "resource.name", "b\xfc", 1): "line 1 is not valid UTF-8",
	} {
		_, err := bill.Read(strings.NewReader(file), bill.GCP, time.Time{}, time.Time{})
		require.ErrorContains(t, err, why)
	}
}

// million writes a file of a million lines for a hundred machines.
func million(lines int) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.WriteString(w, strings.Split(gcp, "\n")[0]+"\n")
		for i := 0; i < lines && err == nil; i++ {
			_, err = fmt.Fprintf(w, "%d,Compute Engine,Spot,2026-10-01 00:00:00 UTC,2026-10-01 01:00:00 UTC,vm-%d,0.01,USD\n", i, i%100)
		}
		w.CloseWithError(err)
	}()
	return r
}

func TestRead_AMillionLinesInBoundedMemory(t *testing.T) {
	t.Parallel()

	sums, err := bill.Read(million(1_000_000), bill.GCP, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Equal(t, 1_000_000, sums.Lines)
	require.Len(t, sums.Items, 100)
	require.Equal(t, "100", usd(sums, "vm-0"))
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	require.Less(t, memory.HeapAlloc, uint64(100<<20))
}

func TestCompare(t *testing.T) {
	t.Parallel()

	amount := func(s string) *decimal.Decimal { return new(decimal.RequireFromString(s)) }
	item := func(s string) *bill.Item { return &bill.Item{USD: decimal.RequireFromString(s), Lines: 1} }
	billed := map[string]*bill.Item{"same": item("10"), "near": item("10.2"), "far": item("10.21"), "unknown": item("3"), "free": item("0"), "unpriced": item("1")}
	own := []bill.Own{{ID: "same", USD: amount("4")}, {ID: "same", USD: amount("6")}, {ID: "near", USD: amount("10")}, {ID: "far", USD: amount("10")},
		{ID: "unbilled", USD: amount("5")}, {ID: "nothing", USD: amount("0")}, {ID: "unpriced"}, {Name: "job_2", USD: amount("0.5")}, {Name: "job_1"}}

	r := bill.Compare(billed, own, decimal.NewFromInt(2))

	ids := func(all []bill.Difference) (names []string) {
		for _, d := range all {
			names = append(names, d.ID)
		}
		return names
	}
	require.Equal(t, []string{"unpriced", "far"}, ids(r.Differing))
	require.Equal(t, []string{"unknown"}, ids(r.Unknown))
	require.Equal(t, []string{"unbilled"}, ids(r.Unbilled))
	require.Equal(t, []string{"job_2", "job_1"}, ids(r.Unnamed))
	require.Equal(t, 4, r.Both)
	require.Equal(t, "34.41", r.BilledUSD.String())
	require.Equal(t, "35.5", r.OwnUSD.String())
	require.Equal(t, "-1.09", r.DifferenceUSD().String())
	require.False(t, r.Agrees())
	require.True(t, bill.Compare(map[string]*bill.Item{"a": item("1")}, []bill.Own{{ID: "a", USD: amount("1")}}, decimal.Zero).Agrees())
}

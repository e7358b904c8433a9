package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models/history"
	"github.com/reelay/reelay/models/postgres"
	"github.com/spf13/cobra"
)

// pagesOptions are the flags of `reelay-bench pages`.
type pagesOptions struct {
	history listsOptions
	reelay  string
	only    string
}

const (
	// pagesTarget is the time within which the server must answer any page.
	pagesTarget = 100 * time.Millisecond
	pagesShown  = 25
)

func pagesCommand() *cobra.Command {
	var o pagesOptions
	cmd := &cobra.Command{
		Use:   "pages",
		Short: "Measure every page of the console over a long history of jobs",
		Long: "Fills a PostgreSQL of its own with a history of so many jobs and with what surrounds them (workers, pools, events,\n" +
			"bulk operations, the figures of the past), starts an API process on it, and asks for every page of the console, with\n" +
			"many filters, orders and searches, and for the same figures over GraphQL. Control does not run, so that nothing\n" +
			"changes meanwhile. 1,000,000 jobs take about 5 GB of disk and some minutes. With --data the history is kept.",
		Example: "  reelay-bench pages\n  reelay-bench pages --rows 100000 --data /var/tmp/history --only /jobs",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.history.check(); err != nil {
				return &usageError{err}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.history.rows, "rows", 1_000_000, "how many jobs the history has")
	f.IntVar(&o.history.times, "times", 20, "how often each page is asked, after a first time")
	f.StringVar(&o.history.data, "data", "", "folder in which the history is kept (default: a temporary one)")
	f.StringVar(&o.reelay, "reelay", "", "program to start the API with (default: reelay in the folder of this program)")
	f.StringVar(&o.only, "only", "", "ask only for addresses that contain this")
	f.BoolVar(&o.history.all, "all", false, "print every page, not the slowest alone")
	f.BoolVar(&o.history.asJSON, "json", false, "print one JSON document")
	return cmd
}

func (o *pagesOptions) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	reelay, err := program(o.reelay)
	if err != nil {
		return err
	}
	data, remove, err := o.history.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	site := &pagesSite{data: data, reelay: reelay}
	defer func() { err = errors.Join(err, site.stop(context.WithoutCancel(ctx))) }()
	if err := site.startStores(ctx); err != nil {
		return err
	}
	if err := o.surround(ctx, site.postgres.DSN(), cmd.ErrOrStderr()); err != nil {
		return err
	}
	asks, err := o.asks(ctx, site.postgres.DSN())
	if err != nil {
		return err
	}
	if err := site.serve(ctx); err != nil {
		return err
	}
	result, err := o.measure(ctx, site, asks)
	if result == nil {
		return err
	}
	if o.history.asJSON {
		return errors.Join(err, printJSON(cmd.OutOrStdout(), result))
	}
	return errors.Join(err, result.print(cmd.OutOrStdout(), o.history.all))
}

// surround writes the history, and what surrounds it, unless they exist.
func (o *pagesOptions) surround(ctx context.Context, dsn string, progress io.Writer) error {
	if err := o.history.fill(ctx, dsn, progress); err != nil {
		return err
	}
	db, done, err := postgres.OpenPatient(ctx, dsn, 2)
	if err != nil {
		return err
	}
	defer done()
	if _, err := migrations.Run(ctx, db); err != nil {
		return err
	}
	if is, err := history.Surrounded(ctx, db); err != nil || is {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close()
	began := time.Now()
	return history.WriteAround(ctx, conn, o.history.rows, func(what string, done, of int) {
		fmt.Fprintf(progress, "%d of %d %s after %.0f s\n", done, of, what, time.Since(began).Seconds())
	})
}

// asks returns the requests to measure.
func (o *pagesOptions) asks(ctx context.Context, dsn string) ([]ask, error) {
	db, done, err := postgres.Open(ctx, dsn, 1)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := findPlaces(ctx, db)
	if err != nil {
		return nil, err
	}
	all, err := found.asks()
	return slices.DeleteFunc(all, func(a ask) bool { return !strings.Contains(a.String(), o.only) }), err
}

// pagesResult is the result, slowest page first.
type pagesResult struct {
	Rows     int           `json:"rows"`
	Pages    []pageMeasure `json:"pages"`
	TargetMs float64       `json:"targetMs"`
	Within   int           `json:"within"` // pages whose 95th percentile was within the target
	Met      bool          `json:"met"`
}

type pageMeasure struct {
	Page string `json:"page"`
	// First is the time of the first request, before anything is cached.
	First float64 `json:"firstMs"`
	P50   float64 `json:"p50Ms"`
	P95   float64 `json:"p95Ms"`
	Bytes int     `json:"bytes"`
}

// measure logs in, and asks for each page as often as requested, one after the other. Its error
// names the pages that were not answered.
func (o *pagesOptions) measure(ctx context.Context, site *pagesSite, asks []ask) (*pagesResult, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	login, err := browser.PostForm(site.endpoint+"/login", url.Values{"key": {site.key}})
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	login.Body.Close()
	r := &pagesResult{Rows: o.history.rows, TargetMs: milliseconds(pagesTarget)}
	var failed []error
	for _, a := range asks {
		m := pageMeasure{Page: a.String()}
		var took []time.Duration
		for i := range 1 + o.history.times {
			began := time.Now()
			if m.Bytes, err = a.send(ctx, browser, site); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", a, err))
				break
			}
			if i > 0 {
				took = append(took, time.Since(began))
			} else {
				m.First = milliseconds(time.Since(began))
			}
		}
		if err != nil {
			continue
		}
		slices.Sort(took)
		m.P50, m.P95 = percentilesOf(took).P50, milliseconds(took[len(took)*95/100-1])
		r.Pages = append(r.Pages, m)
		if m.P95 <= r.TargetMs {
			r.Within++
		}
	}
	r.Met = r.Within == len(r.Pages)
	slices.SortStableFunc(r.Pages, func(a, b pageMeasure) int { return cmp.Compare(max(b.P95, b.First), max(a.P95, a.First)) })
	return r, errors.Join(failed...)
}

// ask is a request for a page, or for a GraphQL query.
type ask struct {
	path  string
	query string
}

// String is what the result calls the page.
func (a ask) String() string {
	if a.query != "" {
		return "GraphQL " + a.query
	}
	return a.path
}

// send asks, and returns the size of the response. Of a stream it reads the first event.
func (a ask) send(ctx context.Context, browser *http.Client, site *pagesSite) (n int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, site.endpoint+a.path, nil)
	if a.query != "" {
		r, err = site.graphQL(ctx, a.query)
	}
	if err != nil {
		return 0, err
	}
	switch {
	case a.query != "":
	case filepath.Base(r.URL.Path) == "live":
		r.Header.Set("Accept", "text/event-stream")
	default:
		r.Header.Set("Accept", "text/html")
	}
	got, err := browser.Do(r)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the API answered %s", got.Status)
	}
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		return firstEvent(got.Body)
	}
	text, err := io.ReadAll(got.Body)
	if err == nil && strings.Contains(string(text[:min(len(text), 20)]), `"errors"`) {
		err = fmt.Errorf("the API answered %s", text)
	}
	return len(text), err
}

// firstEvent reads a stream up to the end of its first event with data of the page.
func firstEvent(stream io.Reader) (n int, err error) {
	in, data := bufio.NewReader(stream), false
	for {
		line, err := in.ReadString('\n')
		n += len(line)
		switch {
		case err != nil:
			return n, err
		case strings.HasPrefix(line, "data:") && line != "data: beat\n":
			data = true
		case line == "\n" && data:
			return n, nil
		}
	}
}

func (r *pagesResult) print(out io.Writer, all bool) error {
	shown := r.Pages
	if !all {
		shown = shown[:min(pagesShown, len(shown))]
	}
	var rows [][]string
	for _, m := range shown {
		rows = append(rows, []string{m.Page, fmt.Sprintf("%.1f", m.First), fmt.Sprintf("%.1f", m.P50), fmt.Sprintf("%.1f", m.P95),
			fmt.Sprint(m.Bytes)})
	}
	if err := printTable(out, []string{fmt.Sprintf("%d jobs, milliseconds", r.Rows), "first", "p50", "p95", "bytes"}, rows); err != nil {
		return err
	}
	verdict := "met"
	if !r.Met {
		verdict = "NOT MET"
	}
	_, err := fmt.Fprintf(out, "%d of %d pages within %.0f ms at the 95th percentile: %s\n", r.Within, len(r.Pages), r.TargetMs, verdict)
	return err
}

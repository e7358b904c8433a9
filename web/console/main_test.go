package console

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// browser is a person in front of a console.
type browser struct {
	*jobstest.Stack
	client *http.Client
	url    string
}

// answer is what a browser got.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// toLogin is the address of the login that leads to a page afterwards.
func toLogin(next string) string {
	if next == "/overview" || next == "/" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(next)
}

// configure is the console of a stack, with a monitor that only says that it is
// one.
func configure(s *jobstest.Stack) Config {
	return Config{
		Keys: s.Keys, Members: s.Members, Accounts: s.Accounts, Budgets: s.Budgets, Eraser: s.Eraser, Reads: s.Reads, Watcher: s.Watcher, Submitter: s.Submitter,
		Canceller: s.Canceller, Deleter: s.Deleter, Operator: s.Operator, Registry: s.Registry, Fleet: s.Fleet, Pools: s.Pools, Engines: s.Engines, Providers: &hosted.Accounts{DB: s.DB},
		Prices:      &pricebook.Prices{DB: s.DB, Catalogue: s.Registry.Catalogue},
		DeadLetters: s.DeadLetters, Bulk: s.Bulk, Logs: s.Objects,
		Retrier: s.Retrier, Webhooks: s.Webhooks, Alerts: s.Alerts, Schedules: s.Schedules, Workflows: s.Workflows,
		CheckLoginsEvery: 20 * time.Millisecond,
		Region:           func(context.Context) (*region.Report, error) { return twoRegions(), nil },
		Monitor:          http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the monitor") }),
	}
}

// stranger opens a console without logging in. It follows no redirects.
func stranger(t *testing.T) *browser {
	t.Helper()
	stack := jobstest.New(t)
	return serve(t, stack, configure(stack))
}

// serve opens a console of this configuration.
func serve(t *testing.T, stack *jobstest.Stack, config Config) *browser {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/objects/", stack.Objects.Handler())
	mux.Handle("/", New(config))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := server.Client()
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{Stack: stack, client: client, url: server.URL}
}

// operator opens a console as an operator.
func operator(t *testing.T) *browser {
	t.Helper()
	b := stranger(t)
	b.logIn(t)
	return b
}

func (b *browser) logIn(t *testing.T) {
	t.Helper()
	got := b.post(t, "/login", url.Values{"key": {b.Secrets[access.RoleOperator]}})
	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
}

func (b *browser) request(t *testing.T, method, path string, form url.Values, header http.Header) answer {
	t.Helper()
	// A stream that opens where a page should be must fail the test, not hang it.
	ctx, cancel := context.WithTimeout(t.Context(), testrun.WaitLimit)
	defer cancel()
	if token := b.token(t); method == http.MethodPost && token != "" && !form.Has("csrf") {
		form = maps.Clone(form)
		if form == nil {
			form = url.Values{}
		}
		form.Set("csrf", token) // as every form of the console has it
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res.StatusCode, res.Header, string(body)}
}

func (b *browser) get(t *testing.T, path string) answer {
	t.Helper()
	return b.request(t, http.MethodGet, path, nil, nil)
}

func (b *browser) post(t *testing.T, path string, form url.Values) answer {
	t.Helper()
	return b.request(t, http.MethodPost, path, form, nil)
}

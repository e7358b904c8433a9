package videos

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
)

// lead redirects the caller to a link. A link to this server is a path, which is valid
// under any name of the server. OpenAI's Go package follows no redirect to another
// server, so for it this server reads the object itself.
func lead(w http.ResponseWriter, c *call, link jobs.Link) error {
	to := link.At("")
	if c.Header.Get("X-Stainless-Lang") == "go" && !strings.HasPrefix(to, "/") {
		return pass(w, c, to)
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
	return nil
}

// fetcher reads from the object store; it follows no redirects.
var fetcher = &http.Client{
	Transport:     fetcherTransport(),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func fetcherTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 10 * time.Second
	t.DisableCompression = true
	return t
}

// errStore has no details, because the link is a secret.
var errStore = apierror.Later(apierror.CodeUnavailable, 2*time.Second, "The object store cannot be reached.")

// pass sends the object behind a link, or the requested range of it.
func pass(w http.ResponseWriter, c *call, link string) error {
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, link, nil)
	if err != nil {
		return errors.New("a link to an object is malformed")
	}
	for _, name := range []string{"Range", "If-Range"} {
		if value := c.Header.Get(name); value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := fetcher.Do(req)
	if err != nil {
		return errStore
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
	case http.StatusNotFound:
		return errExpired
	default:
		return errStore
	}
	for _, name := range []string{"Accept-Ranges", "Content-Disposition", "Content-Length", "Content-Range", "Content-Type", "ETag"} {
		if value := res.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler) // an incomplete video must not look complete
	}
	return nil
}

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rs/cors"
)

// origins are the hosts whose pages may call the APIs from a browser, besides the
// API's own: patterns of path.Match such as app.example or *.studio.example.
type origins []string

// originPattern matches a name with wildcards, and a port if it is not the scheme's
// default.
var originPattern = regexp.MustCompile(`^[A-Za-z0-9_*]([A-Za-z0-9_.*-]*[A-Za-z0-9_*])?(:([0-9]{1,5}|\*))?$`)

// readOrigins reads "app.example,*.studio.example".
func readOrigins(text string) (origins, error) {
	var read origins
	for pattern := range strings.SplitSeq(text, ",") {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			continue
		}
		if !originPattern.MatchString(pattern) || len(pattern) > 253 {
			return nil, fmt.Errorf("%q is not a host", pattern)
		}
		read = append(read, strings.ToLower(pattern))
	}
	return read, nil
}

// include reports whether an origin, as browsers send it, is one of them. "null", the
// origin of pages without a host, never is.
func (o origins) include(origin string) bool {
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" {
		return false
	}
	return slices.ContainsFunc(o, func(pattern string) bool {
		matches, _ := path.Match(pattern, strings.ToLower(page.Host))
		return matches
	})
}

// share lets pages of these origins call an API with a key. It never allows credentials,
// so these pages cannot use a login to the console.
func (o origins) share(api http.Handler) http.Handler {
	if len(o) == 0 {
		return api
	}
	return cors.New(cors.Options{
		AllowOriginFunc: o.include,
		AllowedMethods:  []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders:  []string{"*"}, // SDKs send their own headers
		ExposedHeaders:  []string{"ETag", "Location", "Retry-After"},
		MaxAge:          600,
	}).Handler(api)
}

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

// originPattern is a name with wildcards, and a port if it is not the scheme's own.
var originPattern = regexp.MustCompile(`^[A-Za-z0-9_*]([A-Za-z0-9_.*-]*[A-Za-z0-9_*])?(:([0-9]{1,5}|\*))?$`)

// readOrigins reads "app.example,*.studio.example".
func readOrigins(text string) (origins, error) {
	var read origins
	for pattern := range strings.SplitSeq(text, ",") {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			continue
		}
		if !originPattern.MatchString(pattern) || len(pattern) > 253 {
			return nil, fmt.Errorf("%q is no host", pattern)
		}
		read = append(read, strings.ToLower(pattern))
	}
	return read, nil
}

// include tells whether an origin, as browsers send it, is one of them. "null", of
// pages that have no host, never is.
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

// share lets pages of these origins read what an API answers to a key. Never with
// credentials: a login to the console is of no use to them.
func (o origins) share(api http.Handler) http.Handler {
	if len(o) == 0 {
		return api
	}
	return cors.New(cors.Options{
		AllowOriginFunc: o.include,
		AllowedMethods:  []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders:  []string{"*"}, // SDKs send headers of their own
		ExposedHeaders:  []string{"ETag", "Location", "Retry-After"},
		MaxAge:          600,
	}).Handler(api)
}

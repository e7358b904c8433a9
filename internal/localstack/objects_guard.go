package localstack

import (
	"crypto/subtle"
	"net/http"
	"regexp"
)

// objectGuard passes only the requests that Reelay makes to the emulator, and only with
// the secret. The emulator itself lets every caller overwrite, copy and change objects.
type objectGuard struct {
	http.Handler        // the emulator
	secret       string // the password of HTTP's basic authentication; "" asks for none
}

var (
	bucketPath = regexp.MustCompile(`^/storage/v1/b/[^/]+(/o)?$`)
	objectPath = regexp.MustCompile(`^(/download)?/storage/v1/b/[^/]+/o/[^/]+$`)
	uploadPath = regexp.MustCompile(`^/upload/storage/v1/b/[^/]+/o$`)
)

// ServeHTTP implements http.Handler.
func (g *objectGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, secret, _ := r.BasicAuth()
	switch {
	case g.secret != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(g.secret)) != 1:
		http.Error(w, "This object store is for its own Reelay only.", http.StatusUnauthorized)
	case !permitted(r):
		http.Error(w, "This object store reads, lists and deletes objects, and stores new ones whole. Nothing is overwritten.", http.StatusForbidden)
	default:
		g.Handler.ServeHTTP(w, r)
	}
}

// permitted reports whether a request reads an object, deletes one, or creates a new one.
func permitted(r *http.Request) bool {
	path, query := r.URL.EscapedPath(), r.URL.Query()
	if r.Header.Get("X-Http-Method-Override") != "" {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return bucketPath.MatchString(path) || objectPath.MatchString(path)
	case http.MethodDelete:
		return objectPath.MatchString(path)
	case http.MethodPost:
		return uploadPath.MatchString(path) && query.Get("uploadType") == "multipart" && query.Get("ifGenerationMatch") == "0"
	}
	return false
}

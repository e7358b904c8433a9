package blob

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
)

// linkPath is where the handler is mounted.
const linkPath = "/objects/"

// signatureParam is the parameter with the signature of all others.
const signatureParam = "signature"

// linkSigner signs links to Handler, with an HMAC-SHA256 over the method, the key and every
// parameter. A link is a path: the name by which the client calls this server is not signed.
type linkSigner struct {
	// keys returns the keys: the first one signs, all of them verify.
	keys func() [][]byte
}

func newLinkSigner(keys func() [][]byte) (linkSigner, error) {
	if keys == nil {
		return linkSigner{}, errors.New("no key signs links")
	}
	for _, key := range keys() {
		if len(key) != sha256.Size {
			return linkSigner{}, fmt.Errorf("the key that signs links must have %d bytes, not %d", sha256.Size, len(key))
		}
	}
	return linkSigner{keys}, nil
}

// OneKey is for a key that is never replaced.
func OneKey(key []byte) func() [][]byte { return func() [][]byte { return [][]byte{key} } }

func (s linkSigner) signUpload(_ context.Context, u jobs.Upload, expires time.Time) (jobs.Link, map[string]string, error) {
	link := s.sign(http.MethodPut, u.Key, url.Values{
		"expires": {strconv.FormatInt(expires.Unix(), 10)},
		"type":    {u.ContentType},
		"size":    {strconv.FormatInt(u.SizeBytes, 10)},
		"crc32c":  {u.Checksum},
	})
	return link, map[string]string{"content-type": u.ContentType}, nil
}

func (s linkSigner) signDownload(_ context.Context, key, filename string, expires time.Time) (jobs.Link, error) {
	return s.sign(http.MethodGet, key, url.Values{
		"expires":  {strconv.FormatInt(expires.Unix(), 10)},
		"filename": {filename},
	}), nil
}

func (linkSigner) origin() string { return "" }

func (s linkSigner) sign(method, key string, params url.Values) jobs.Link {
	params.Set(signatureParam, base64.RawURLEncoding.EncodeToString(linkMAC(s.keys()[0], method, key, params)))
	link := url.URL{Path: linkPath + key, RawQuery: params.Encode()}
	return jobs.Link(link.String())
}

func linkMAC(linkKey []byte, method, key string, params url.Values) []byte {
	mac := hmac.New(sha256.New, linkKey)
	write := func(field string) { // with its length, so that no two sets of fields look alike
		_, _ = fmt.Fprintf(mac, "%d:%s", len(field), field)
	}
	write("reelay object link")
	write(method)
	write(key)
	signed := maps.Clone(params) // all of them: adding one makes another link
	signed.Del(signatureParam)
	write(signed.Encode())
	return mac.Sum(nil)
}

// terms is what a link allows its holder to do.
type terms struct {
	key string
	// For an upload:
	contentType string
	size        int64
	checksum    uint32
	// For a download:
	filename string
}

// upload is what the holder of an upload link may store.
func (t terms) upload() jobs.Upload {
	return jobs.Upload{Key: t.key, ContentType: t.contentType, SizeBytes: t.size, Checksum: encodeChecksum(t.checksum)}
}

// verify returns the terms of r's link. Its errors are refusals.
func (s linkSigner) verify(r *http.Request, now time.Time) (terms, error) {
	method := r.Method
	if method == http.MethodHead { // a link to read also allows HEAD
		method = http.MethodGet
	}
	key := strings.TrimPrefix(r.URL.Path, linkPath)
	if err := checkKey(key); err != nil {
		return terms{}, refuse(http.StatusBadRequest, "This is not the link of an object: %s.", err)
	}
	params := r.URL.Query()
	signature, err := base64.RawURLEncoding.Strict().DecodeString(params.Get(signatureParam))
	signed := slices.ContainsFunc(s.keys(), func(linkKey []byte) bool { return hmac.Equal(signature, linkMAC(linkKey, method, key, params)) })
	if err != nil || !signed {
		return terms{}, refuse(http.StatusForbidden, "This link is not valid for %s of this object. Use a link exactly as it was given.", method)
	}
	expires, err := strconv.ParseInt(params.Get("expires"), 10, 64)
	if err != nil {
		return terms{}, fmt.Errorf("a signed link has no expiry: %w", err)
	}
	switch end := time.Unix(expires, 0); {
	case !now.Before(end):
		return terms{}, refuse(http.StatusForbidden, "This link expired at %s. Request a new one.", text.Moment(end.UTC(), now))
	case end.After(now.Add(maxTTL)):
		return terms{}, refuse(http.StatusForbidden,
			"This link ends at %s, more than %.0f days from now: it was signed with a wrong clock. Request a new one.",
			text.Moment(end.UTC(), now), maxTTL.Hours()/24)
	}
	granted := terms{key: key, filename: params.Get("filename")}
	if method == http.MethodPut {
		granted.contentType = params.Get("type")
		var sizeErr, sumErr error
		granted.size, sizeErr = strconv.ParseInt(params.Get("size"), 10, 64)
		granted.checksum, sumErr = decodeChecksum(params.Get("crc32c"))
		err = errors.Join(sizeErr, sumErr)
	}
	return granted, err
}

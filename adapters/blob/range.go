package blob

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// oneRange matches a Range header with one range of bytes, see RFC 9110, 14.1.2.
var oneRange = regexp.MustCompile(`^(?i:bytes)=[ \t]*([0-9]*)-([0-9]*)[ \t]*$`)

// tidyRange rewrites the request's Range so that http.ServeContent follows RFC 9110. Without
// the header it sends the whole object: RFC 9110 requires that for an invalid header and
// allows it for several ranges, each of which would need its own fetch.
func tidyRange(r *http.Request, size int64) {
	asked := r.Header.Values("Range")
	r.Header.Del("Range")
	if len(asked) != 1 || r.Method != http.MethodGet {
		return
	}
	parts := oneRange.FindStringSubmatch(asked[0])
	if parts == nil {
		return
	}
	first, last, valid := resolveRange(parts[1], parts[2], size)
	if valid {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, last))
	}
}

// resolveRange returns the first and the last byte of a range. A range outside the object
// begins after its end.
func resolveRange(from, to string, size int64) (first, last int64, valid bool) {
	switch {
	case from == "" && to == "":
		return 0, 0, false
	case from == "":
		suffix := min(position(to), size)
		return size - suffix, max(size-1, size-suffix), true
	case to == "":
		return position(from), max(size-1, position(from)), true
	}
	if longer(from, to) {
		return 0, 0, false
	}
	return position(from), max(position(from), min(position(to), size-1)), true
}

// position parses digits. A number too large for an int64 becomes the largest int64.
func position(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// longer reports whether a is the larger number.
func longer(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) > len(b) || len(a) == len(b) && a > b
}

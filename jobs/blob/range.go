package blob

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// oneRange is the header Range with one range of bytes, see RFC 9110, 14.1.2.
var oneRange = regexp.MustCompile(`^(?i:bytes)=[ \t]*([0-9]*)-([0-9]*)[ \t]*$`)

// tidyRange makes the request's Range one that http.ServeContent reads as RFC 9110 has it.
// Without the header it sends the whole object: what is not valid must be ignored, and
// several ranges may be, of which each would be fetched by itself.
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

// resolveRange returns the first and the last byte of a range. One that has nothing of the
// object begins behind its end.
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

// position reads digits. More than an int64 holds is the largest one.
func position(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// longer reports whether a is the larger number.
func longer(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) > len(b) || len(a) == len(b) && a > b
}

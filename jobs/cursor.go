package jobs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/reelay/reelay/models"
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	// Cursors are the marks behind each of the items.
	Cursors []string
	More    bool
	// End is the cursor to go on from; "" if there is nothing to go on from.
	End string
}

// PageOf asks for the first items after a cursor.
type PageOf struct {
	First int
	After string
}

// list is one list: a kind of items, and a digest of all that decides which of
// them are in it. A cursor carries the digest, so that one of another list is
// refused: taken for a place in this one, it would leave out what nobody misses. It
// protects nothing: whoever forges one is shown no more than he may see.
type list struct {
	kind   string
	digest string
}

const (
	// cursorVersion begins every cursor; those of another form are unreadable.
	cursorVersion = "2"
	digestBytes   = 8
	maxCursor     = 200
)

// listOf is the list of a kind that these values narrow.
func listOf(kind string, narrowed ...any) list {
	raw, err := json.Marshal(append([]any{kind}, narrowed...))
	if err != nil { // filters and ids
		panic(fmt.Errorf("name a list: %w", err))
	}
	sum := sha256.Sum256(raw)
	return list{kind, string(sum[:digestBytes])}
}

// cursor is an opaque mark in the list.
func (l list) cursor(mark string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorVersion + l.digest + mark))
}

// begin checks what is asked for, and returns the mark that the page begins
// after: an id, if items have ids, or "".
func (l list) begin(of PageOf) (mark string, err error) {
	if err := validFirst(of.First); err != nil {
		return "", err
	}
	return l.read(of.After)
}

func (l list) read(cursor string) (mark string, err error) {
	if cursor == "" {
		return "", nil
	}
	if len(cursor) > maxCursor {
		return "", errCursor
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) <= len(cursorVersion)+digestBytes || string(raw[:len(cursorVersion)]) != cursorVersion {
		return "", errCursor
	}
	if mark = string(raw[len(cursorVersion)+digestBytes:]); l.cursor(mark) != cursor {
		return "", errOtherList
	}
	if l.kind != eventKind && models.IDKind(mark) != l.kind {
		return "", errCursor
	}
	return mark, nil
}

// eventKind is the kind of a job's events, whose marks are their numbers.
const eventKind = "event"

var (
	errCursor    = invalid("after", "The cursor is not one that this API gave: send the one that came with the page before.")
	errOtherList = invalid("after", "The cursor is one of another list: it goes on with the same arguments and for the same account only. Begin again without it.")
)

func validFirst(first int) error {
	if first < 1 || first > MaxPage {
		return invalid("first", "first must be from 1 to %d; it is %d.", MaxPage, first)
	}
	return nil
}

// page makes a page of one item more than were asked for, if there are as many.
func page[T any](l list, items []T, first int, mark func(T) string) *Page[T] {
	p := &Page[T]{Items: items}
	if len(items) > first {
		p.Items, p.More = items[:first], true
	}
	for _, item := range p.Items {
		p.End = l.cursor(mark(item))
		p.Cursors = append(p.Cursors, p.End)
	}
	return p
}

package paging

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
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

// Request asks for the first items after a cursor.
type Request struct {
	First int
	After string
}

// List is one list: a kind of items, and a digest of everything that decides which of
// them are in it. A cursor contains the digest, so that a cursor of another list is
// refused: used in this one, it would skip items without an error. The digest is no
// protection: a caller with a forged cursor still sees only what it is allowed to see.
type List struct {
	kind   string
	digest string
}

const (
	// cursorVersion begins every cursor; those of another form are unreadable.
	cursorVersion = "2"
	digestBytes   = 8

	// MaxCursor is the maximum length of a cursor, and CursorForm its form, a regular expression.
	MaxCursor  = 200
	CursorForm = `^[A-Za-z0-9_-]*$`
)

// ListOf is the list of a kind that these values narrow.
func ListOf(kind string, narrowed ...any) List {
	raw, err := json.Marshal(append([]any{kind}, narrowed...))
	if err != nil { // filters and ids
		panic(fmt.Errorf("name a list: %w", err))
	}
	sum := sha256.Sum256(raw)
	return List{kind, string(sum[:digestBytes])}
}

// Cursor is an opaque mark in the list.
func (l List) Cursor(mark string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorVersion + l.digest + mark))
}

// Begin checks what is asked for, and returns the mark that the page begins
// after: an id, if items have ids, or "".
func (l List) Begin(of Request) (mark string, err error) {
	if err := ValidFirst(of.First); err != nil {
		return "", err
	}
	return l.Read(of.After)
}

func (l List) Read(cursor string) (mark string, err error) {
	if cursor == "" {
		return "", nil
	}
	if len(cursor) > MaxCursor {
		return "", ErrCursor
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) <= len(cursorVersion)+digestBytes || string(raw[:len(cursorVersion)]) != cursorVersion {
		return "", ErrCursor
	}
	if mark = string(raw[len(cursorVersion)+digestBytes:]); l.Cursor(mark) != cursor {
		return "", errOtherList
	}
	if l.kind != EventKind && l.kind != MachineKind && models.IDKind(mark) != l.kind {
		return "", ErrCursor
	}
	return mark, nil
}

// The kinds of items without ids of their own. Their lists check the marks.
const (
	// EventKind is that of a job's events, whose marks are their numbers.
	EventKind = "event"
	// MachineKind is that of the machines of the ledger.
	MachineKind = "machine"
)

var (
	ErrCursor    = apierror.Invalid("after", "The cursor is not valid: send the endCursor of the previous page.")
	errOtherList = apierror.Invalid("after",
		"The cursor belongs to another list: it is valid only for the same arguments and account. Start again without a cursor.")
)

func ValidFirst(first int) error {
	if first < 1 || first > Max {
		return apierror.Invalid("first", "first must be from 1 to %d; it is %d.", Max, first)
	}
	return nil
}

// NewPage makes a page of one item more than were asked for, if there are as many.
func NewPage[T any](l List, items []T, first int, mark func(T) string) *Page[T] {
	p := &Page[T]{Items: items}
	if len(items) > first {
		p.Items, p.More = items[:first], true
	}
	for _, item := range p.Items {
		p.End = l.Cursor(mark(item))
		p.Cursors = append(p.Cursors, p.End)
	}
	return p
}

// Max is the most that a page may hold.
const Max = 200

package jobstest

import "github.com/reelay/reelay/jobs/paging"

// CursorOf is the cursor of a mark in the list that a value narrows.
func CursorOf(kind, mark string, narrowed any) string {
	return paging.ListOf(kind, narrowed).Cursor(mark)
}

// ReadCursor reads it again.
func ReadCursor(cursor, kind string, narrowed any) (string, error) {
	return paging.ListOf(kind, narrowed).Read(cursor)
}

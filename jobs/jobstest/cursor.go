package jobstest

import "github.com/reelay/reelay/internal/paging"

// CursorOf returns the cursor at a mark in a list that is filtered by narrowed.
func CursorOf(kind, mark string, narrowed any) string {
	return paging.ListOf(kind, narrowed).Cursor(mark)
}

// ReadCursor returns the mark of such a cursor.
func ReadCursor(cursor, kind string, narrowed any) (string, error) {
	return paging.ListOf(kind, narrowed).Read(cursor)
}

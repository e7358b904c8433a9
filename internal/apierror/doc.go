// Package apierror has the errors that callers see: a code, the field, a sentence that says what to do,
// and when to try again.
package apierror
